"""Inspect's viewer on logs of a scripted model. usage: FOLDER PORT TRACES TURNS..."""

from __future__ import annotations

import subprocess
import sys
import types
import urllib.parse
from pathlib import Path
from typing import Any


def _words_for_tokens() -> None:
    """Its token counter would fetch a vocabulary; words are counted instead."""
    module: Any = types.ModuleType("tiktoken")

    class Encoding:
        def encode(self, text: str, **_: object) -> list[str]:
            return text.split()

        encode_ordinary = encode

    module.Encoding = Encoding
    module.get_encoding = module.encoding_for_model = lambda *_: Encoding()
    sys.modules["tiktoken"] = module


_words_for_tokens()

import held  # noqa: E402
from inspect_ai import Task, eval  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ChatMessageUser, ModelOutput, get_model  # noqa: E402
from inspect_ai.solver import Generate, TaskState, solver  # noqa: E402


@solver
def turns(count: int) -> Any:
    """A run of `count` model calls whose prompt grows by two messages each."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for number in range(count):
            text = f"turn {number}: " + "output of a tool " * 60
            state.messages.append(ChatMessageUser(content=text))
            output = await get_model().generate(state.messages)
            state.messages.append(output.message)
            state.output = output
        return state

    return solve


def main() -> None:
    """Write the logs, start the viewer, hold."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    sizes = [int(text) for text in sys.argv[4:]]
    url = f"http://127.0.0.1:{port}"
    pages = {}
    for size in sizes:
        answers = [ModelOutput.from_content("mockllm/model", "an answer " * 60)] * (size + 5)
        log = eval(
            Task(dataset=[Sample(input="question", target="x")], solver=turns(size)),
            model=get_model("mockllm/model", custom_outputs=answers),
            log_dir=str(folder / "logs"),
            log_format="eval",
            display="none",
        )[0]
        name = urllib.parse.quote(Path(log.location).name)
        pages[size] = f"{url}/#/logs/{name}/samples/sample/1/1/transcript"
    command = [str(Path(sys.executable).parent / "inspect"), "view", "start"]
    command += ["--log-dir", str(folder / "logs"), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log_file:
        process = subprocess.Popen(command, stdout=log_file, stderr=log_file)
    try:
        seconds = held.wait_for(url, process, 60)
        held.hold(
            {
                "peer": "inspect",
                "cold_start_s": seconds,
                "idle_mb": held.memory_mb(process.pid),
                "pages": pages,
                "text": "",
            }
        )
    finally:
        process.terminate()
        process.wait(30)


main()
