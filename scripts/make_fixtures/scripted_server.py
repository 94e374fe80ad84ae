"""A chat-completions server on 127.0.0.1 that answers each conversation from a script."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CACHE_BLOCK = 128


class ScriptedServer:
    """Answers request number n with reply n of the script; counts tokens by length."""

    def __init__(self, model: str, replies: list[dict[str, Any]]) -> None:
        self._model = model
        self._replies = replies
        self._served = 0
        self._prompt_before = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(length) or b"{}")
                data = json.dumps(outer.answer(body), ensure_ascii=False).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def served(self) -> int:
        """Replies given so far."""
        return self._served

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The next reply of the script as a response body."""
        number = min(self._served, len(self._replies) - 1)
        reply = self._replies[number]
        self._served += 1
        message: dict[str, Any] = {"role": "assistant", "content": reply.get("say")}
        calls = reply.get("calls", [])
        names = []
        for index, call in enumerate(calls):
            arguments = call if isinstance(call, str) else json.dumps(call, ensure_ascii=False)
            native = hashlib.sha256(f"{self._model}/{number}/{index}".encode()).hexdigest()[:12]
            names.append(arguments)
            message.setdefault("tool_calls", []).append(
                {
                    "id": f"call_{native}",
                    "type": "function",
                    "function": {"name": "bash", "arguments": arguments},
                }
            )
        prompt = len(json.dumps(body.get("messages", []), ensure_ascii=False)) // 4
        cached = min(prompt, self._prompt_before) // CACHE_BLOCK * CACHE_BLOCK
        self._prompt_before = prompt
        said = len(reply.get("say") or "") + sum(map(len, names))
        completion = 12 + said // 4
        native = hashlib.sha256(f"{self._model}#{number}".encode()).hexdigest()[:20]
        return {
            "id": f"chatcmpl-{native}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": f"{self._model}-2026-11-01",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if calls else "stop",
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "prompt_tokens_details": {"cached_tokens": cached},
                "completion_tokens_details": {"reasoning_tokens": completion // 5},
            },
        }

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
