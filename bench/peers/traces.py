"""Spans as the trace viewers take them (OTLP over HTTP, protobuf), shared by their scripts.

Runs in a peer's environment: nothing of the product is imported here.
"""

from __future__ import annotations

import os
import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

_TEXT = "the agent read a file, then it ran the tests and their output follows here. " * 6
_MILLISECOND = 1_000_000


def _attribute(key: str, value: str | int) -> KeyValue:
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=value))


def spans(trace: bytes, count: int, *, first: int = 0, root: bytes = b"") -> list[Span]:
    """`count` spans of one trace, about 1.2 KB each; number 0 is the root of the others."""
    began = int((time.time() - 3600) * 1e9)
    made = []
    for number in range(first, first + count):
        own = root if number == 0 else os.urandom(8)
        kind = "AGENT" if number == 0 else ("LLM" if number % 2 else "TOOL")
        span = Span(
            trace_id=trace,
            span_id=own,
            parent_span_id=b"" if number == 0 else root,
            name="agent.run" if number == 0 else ("model.call" if number % 2 else "tool.bash"),
            kind=1,
            start_time_unix_nano=began + number * _MILLISECOND,
            end_time_unix_nano=began + (number + 1) * _MILLISECOND,
            status=Status(code=1),
        )
        span.attributes.extend(
            [
                _attribute("openinference.span.kind", kind),
                _attribute("input.value", f"{number} {_TEXT}"),
                _attribute("output.value", f"{number} {_TEXT}"),
                _attribute("llm.model_name", "m-1"),
                _attribute("llm.token_count.prompt", 100 + number % 50),
                _attribute("llm.token_count.completion", 20),
            ]
        )
        made.append(span)
    return made


def body(some: list[Span], project: str) -> bytes:
    """One export request."""
    resource = Resource(
        attributes=[
            _attribute("openinference.project.name", project),
            _attribute("service.name", "bench"),
        ]
    )
    scoped = ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=some)])
    return bytes(ExportTraceServiceRequest(resource_spans=[scoped]).SerializeToString())


def bodies_of_trace(trace: bytes, count: int, project: str, batch: int = 500) -> list[bytes]:
    """A whole trace in requests of `batch` spans."""
    root = os.urandom(8)
    return [
        body(spans(trace, min(batch, count - at), first=at, root=root), project)
        for at in range(0, count, batch)
    ]
