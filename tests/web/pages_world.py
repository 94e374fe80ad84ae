"""A real store with real pages over it: the committed demo files, every family, hostile text.

Every text of the trajectory `hostile` carries markup, template syntax, htmx attributes, terminal
escapes and hidden characters; nothing of it may act or hide on any page.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from app import wiring
from app.main import create_app
from app.settings import Settings
from core.events import registry
from core.events.admission import Actual, Authorized, BudgetReserved, BudgetSettled
from core.events.approval import ApprovalRequested, ApprovalResolved
from core.events.branch import Forked
from core.events.checkpoint import Checkpoint
from core.events.context import Compacted, RuntimeInput
from core.events.control import ControlChanged, PlanChanged, PlanItem
from core.events.envelope import BlobRef, NewEvent
from core.events.fields import (
    Change,
    Charge,
    Limit,
    MessageRef,
    Payload,
    ToolCall,
    Usage,
    WorkspaceChange,
)
from core.events.model_call import ContextBuilt, ModelReplied
from core.events.ownership import OwnershipGranted, Resumed, SetBack
from core.events.prepare import prepare
from core.events.source import Unparsed
from core.events.task import Capabilities, Parent, Restart, TaskStarted
from core.events.tool import ToolIntent, ToolResult
from core.ids import tenant
from core.principal import Principal
from store.ports import AppendCommand, CreateCommand

WHO = Principal(tenant("local"), "tests", frozenset({"read", "write", "import", "operate"}))
HOSTILE = (
    '<script>window.hit=1</script><img src=x onerror="window.hit=1">'
    '<b hx-get="/import" hx-trigger="load" data-hx-get="/import" style="color:red">'
    "\"' onmouseover='window.hit=1' {{7*7}} ${7*7} javascript:alert(1) "
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x07 \u202egpj.exe\u200b"
    "![beacon](https://evil.example/x.png) \r\n second line"
)
_SHA = "sha256:" + "ab" * 32


def hostile_payloads() -> list[Payload]:
    """One payload of every family with every text hostile."""
    h = HOSTILE
    change = WorkspaceChange(
        h, h, (Change(h, "edited", _SHA, 12, diff=f"--- a\n+++ b\n@@ -1 +1 @@\n-{h}\n+{h}"),)
    )
    charge = (Charge(h, "tokens", 5), Charge("usd", "nano_usd", 7))
    return [
        TaskStarted(
            title=h,
            standing="imported",
            capabilities=Capabilities(intents="proposals"),
            task=h,
            requester=h,
            agent=h,
            source=h,
            model=h,
            parent=Parent("tr-x", "op-x"),
            restart=Restart(h, h),
            limits=(Limit("usd", "nano_usd", 10**12, 10**9),),
            deadline_at=1_700_000_000_000_000,
            finalization_deadline_at=1_700_000_000_000_000,
            workspace=h,
            checkpoint_slots=(h,),
            configuration={h: [h, {h: h}]},
            labels={h: h},
        ),
        ContextBuilt(
            _SHA,
            2,
            messages=(
                MessageRef(h, _SHA, 10, text=h),
                MessageRef("user", _SHA, 10),
                MessageRef("tool", _SHA, 10, blob=_SHA, start=0, end=10),
            ),
            tools=(MessageRef("tool", _SHA, 3, text=h),),
            model=h,
            request={h: h},
        ),
        ModelReplied(
            "error",
            model=h,
            text=h,
            tool_calls=(ToolCall(h, h[:0] or "op-1", h),),
            finish_reason=h,
            usage=Usage(1, 2, 3, 4),
            usage_raw={h: h},
            provider={h: h},
            response_id=h,
            rejected=h,
            error=h,
            gaps=(h,),
        ),
        Authorized("denied", h, h, h, h, h),
        BudgetReserved(charge, h),
        BudgetSettled((Actual(h, "tokens", 3, True), Actual("usd", "nano_usd", 5)), evidence=h),
        ToolIntent("proposal", h, h, {"command": h, h: h, "path": h}, h, h, depends_on=(h,)),
        ToolResult("unknown", "sender", h, h, h, h, h, False, h, 1, h, h, change),
        PlanChanged(1, (PlanItem(h, h, h, (h,), h),), h),
        ApprovalRequested(h, h, h, _SHA, h, h, {h: h}, h, 1_700_000_000_000_000, h),
        ApprovalResolved(h, "granted", h, h),
        Compacted(h, 1, 2, h, 3),
        RuntimeInput(h, {h: [h]}, h, True, change),
        OwnershipGranted(h, 1, h, "expiry"),
        Checkpoint(3, _SHA, _SHA, 1, 1, h),
        Resumed(3, h, h, h, 2, "migrated", _SHA, SetBack(1, 1, (PlanItem(h, h),), h, h)),
        Forked("tr-x", 3, _SHA, {h: h}, h),
        Unparsed(h, h),
        ControlChanged("FAILED", "RUNNING", h, h, h, h, (h,), (), (h,), {h: h}, h),
    ]


@dataclass
class World:
    """The store, the application over it, and a browser without JavaScript."""

    parts: wiring.Parts
    app: FastAPI
    client: TestClient
    demo: list[str] = field(default_factory=list)

    def get(self, path: str, *, part: str = "", status: int = 200) -> str:
        """The page, or the part htmx would ask for."""
        headers = {"Accept": "text/html"}
        if part:
            headers |= {"HX-Request": "true", "HX-Target": f"div#{part}"}
        answer = self.client.get(path, headers=headers, follow_redirects=False)
        assert answer.status_code == status, (path, answer.status_code, answer.text[:400])
        return answer.text

    def import_page(self, *files: tuple[str, bytes]) -> str:
        """Send a form of files as a browser without JavaScript does; the report's page."""
        sent = self.client.post(
            "/import",
            files=[("files", (name, data, "application/json")) for name, data in files],
            headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
            follow_redirects=False,
        )
        assert sent.status_code == 303, sent.text[:600]
        for _ in range(200):
            page = self.get(sent.headers["location"])
            if 'hx-trigger="load delay' not in page:
                return page
            time.sleep(0.05)
        raise AssertionError("the import never ended")


@contextmanager
def world(folder: Path, *, follow: bool = False) -> Iterator[World]:
    """An empty store with pages over it."""
    settings = Settings(data=folder)
    parts = wiring.open_parts(settings, follow=follow)
    app = create_app(settings, parts=parts)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield World(parts, app, client)


def write(
    world: World,
    trajectory_id: str,
    payloads: list[Payload],
    *,
    id_: str = "e",
    after: int = 0,
    at: Callable[[int], int] = int,
) -> None:
    """An imported trajectory of these payloads, each in its family's envelope; `after`: they are
    appended to that many. `at`: the second of each, by its number."""
    write_to(world.parts, trajectory_id, payloads, id_=id_, after=after, at=at)


def write_to(
    parts: wiring.Parts,
    trajectory_id: str,
    payloads: list[Payload],
    *,
    id_: str = "e",
    after: int = 0,
    at: Callable[[int], int] = int,
) -> None:
    """The same, into an open store."""
    blob = parts.runtime.put_blob(WHO, b"original " + HOSTILE.encode())
    ref = BlobRef(
        blob.digest, blob.length, schema="strandline.original/1", start=0, end=blob.length
    )
    events = []
    for number, payload in enumerate(payloads, after + 1):
        name = type(payload).__name__
        tool = name in ("ToolIntent", "ToolResult", "Authorized", "BudgetReserved")
        call = name in ("ContextBuilt", "ModelReplied")
        new = NewEvent(
            event_id=f"{id_}-{number}",
            type=name,
            schema_version=registry.FAMILIES[name].version,
            payload=registry.encode(payload),
            occurred_at=1_700_000_000_000_000 + at(number) * 1_000_000,
            step=1 if call else None,
            operation_id="op-1" if tool else None,
            attempt_id="op-1.1" if tool else None,
            invocation_id="call-1" if call else None,
            refs=(ref,),
        )
        events.append(prepare(trajectory_id, new, payload))
    store = parts.opened.store
    if not after:
        store.create(
            CreateCommand(
                tenant="local",
                trajectory_id=trajectory_id,
                standing="imported",
                issuer="importer",
                request_id=f"create.{trajectory_id}",
                request_digest=b"\0" * 32,
            )
        ).result()
    store.append(
        AppendCommand(
            tenant="local",
            trajectory_id=trajectory_id,
            issuer="importer",
            door="import",
            request_id=f"append.{trajectory_id}.{after}",
            events=tuple(events),
            expected_head=after,
        )
    ).result()
    assert parts.projector is not None
    parts.projector.catch_up()


class Elements(HTMLParser):
    """Every element of a page with its attributes, and what stands in scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.inline: list[str] = []
        self._raw = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self._raw = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if self._raw and data.strip():
            self.inline.append(data)


_HX = re.compile(r"(data-)?hx-")
#: Every attribute of htmx that our templates use; any other came from data.
OURS = {
    "hx-boost",
    "hx-boost:inherited",
    "hx-sync",
    "hx-sync:inherited",
    "hx-get",
    "hx-trigger",
    "hx-target",
    "hx-swap",
    "hx-ignore",
    "hx-sse:connect",
}


def assert_inert(page: str) -> None:
    """Nothing on the page can act that our templates did not put there."""
    elements = Elements(page)
    assert not elements.inline, elements.inline[:2]
    for tag, attributes in elements.found:
        assert tag not in ("iframe", "object", "embed", "base", "style"), tag
        if tag in ("script", "link", "img", "form", "a", "use"):
            for name in ("src", "href", "action"):
                target = attributes.get(name, "/")
                assert target.startswith(("/", "#")), (tag, target)
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "style", (tag, name, value)
            if _HX.match(name):
                assert name in OURS, (tag, name)
                if name == "hx-get":
                    assert value.startswith(("/t/", "/import/", "/trajectories/newer?"))
                    assert "<" not in value
    for hidden in ("\x1b", "\x07", "\u202e", "\u200b", "\x00"):
        assert hidden not in page, repr(hidden)
