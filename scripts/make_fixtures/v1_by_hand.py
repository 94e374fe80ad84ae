"""Write the one fixture of the 1.x layout by hand: the installed tool no longer makes it.

    python v1_by_hand.py FOLDER

The layout follows what is known of 1.x: no timestamps, one action per reply in a code block, the
result as the next user message, the raw response beside each reply, the exit status in `info`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

NAME = "v1-layout-by-hand.traj.json"
SYSTEM = "Answer with a THOUGHT and exactly one command in a bash code block.\n"
TASK = "total.py prints 41 for data.csv, the right sum is 42. Find the missing row."
INSTANCE = "This is the task:\n{{task}}\n\nWork in the present folder.\n"
DATA = "apples,12\npears,9\nplums,20\ncherries,1"
TURNS: tuple[tuple[str, str | None, str], ...] = (
    (
        "THOUGHT: First the program and its data.\n\n```bash\ncat total.py data.csv\n```",
        "cat total.py data.csv",
        "<returncode>0</returncode>\n<output>\nimport csv\n\nwith open('data.csv') as file:\n"
        "    rows = list(csv.reader(file))[:3]\nprint(sum(int(row[1]) for row in rows))\n"
        f"{DATA}\n</output>",
    ),
    (
        "THOUGHT: It reads three rows only. I could change that in two ways:\n\n"
        "```bash\nsed -i 's/\\[:3\\]//' total.py\n```\n\nor\n\n"
        "```bash\nsed -i 's/\\[:3\\]/[:4]/' total.py\n```",
        None,
        "Exactly one action in a code block is needed, found 2 actions.",
    ),
    (
        "THOUGHT: The slice has no reason to be there, so it goes.\n\n"
        "```bash\nsed -i 's/\\[:3\\]//' total.py && python3 total.py\n```",
        "sed -i 's/\\[:3\\]//' total.py && python3 total.py",
        "<returncode>0</returncode>\n<output>\n42\n</output>",
    ),
    (
        "THOUGHT: 42 now. Does it also stop by itself on standard input?\n\n"
        "```bash\npython3 -i total.py\n```",
        "python3 -i total.py",
        "The last command <command>python3 -i total.py</command> timed out and was ended.\n"
        "Its output was:\n<output>\n42\n</output>",
    ),
    (
        "THOUGHT: With -i it waits, as it should. Nothing else calls it: does a test exist?\n\n"
        "```bash\nls test_*.py\n```",
        "ls test_*.py",
        "<returncode>2</returncode>\n<output>\nls: cannot access 'test_*.py': No such file or "
        "directory\n</output>",
    ),
    (
        "THOUGHT: None. The change is complete.\n\n"
        "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff",
        "diff --git a/total.py b/total.py\n--- a/total.py\n+++ b/total.py\n@@ -3,3 +3,3 @@\n"
        " with open('data.csv') as file:\n-    rows = list(csv.reader(file))[:3]\n"
        "+    rows = list(csv.reader(file))\n print(sum(int(row[1]) for row in rows))\n",
    ),
)


def response(number: int, content: str, prompt: int, cached: int) -> dict[str, Any]:
    """A raw response as a priced provider gives it."""
    completion = 20 + len(content) // 4
    cost = (prompt - cached) * 2e-6 + cached * 5e-7 + completion * 8e-6
    return {
        "id": "gen-" + hashlib.sha256(f"by hand {number}".encode()).hexdigest()[:16],
        "provider": "Scripted",
        "model": "scripted/coder-1",
        "object": "chat.completion",
        "created": 1763500000 + 7 * number,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {"role": "assistant", "content": content},
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "cost": round(cost, 9),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def trajectory() -> dict[str, Any]:
    """The whole file."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": INSTANCE.replace("{{task}}", TASK)},
    ]
    total, before = 0.0, 0
    for number, (content, _, result) in enumerate(TURNS):
        prompt = sum(len(message["content"]) for message in messages) // 4
        body = response(number, content, prompt, before // 64 * 64)
        before = prompt
        total += body["usage"]["cost"]
        messages.append({"role": "assistant", "content": content, "extra": {"response": body}})
        messages.append({"role": "user", "content": result})
    return {
        "info": {
            "exit_status": "Submitted",
            "submission": messages[-1]["content"],
            "model_stats": {"instance_cost": total, "api_calls": len(TURNS)},
            "mini_version": "1.15.0",
            "config": {
                "agent": {
                    "system_template": SYSTEM,
                    "instance_template": INSTANCE,
                    "timeout_template": "The last command <command>{{action['action']}}</command> "
                    "timed out and was ended.\nIts output was:\n<output>\n{{output}}\n</output>",
                    "step_limit": 50,
                    "cost_limit": 1.0,
                },
                "model": {
                    "model_name": "scripted/coder-1",
                    "model_kwargs": {"temperature": 0.0},
                    "cost_tracking": "default",
                },
                "environment": {"cwd": "/tmp/mini-runs/total", "timeout": 20},
                "agent_type": "minisweagent.agents.default.DefaultAgent",
                "model_type": "minisweagent.models.openrouter_model.OpenRouterModel",
                "environment_type": "minisweagent.environments.local.LocalEnvironment",
            },
        },
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "by-hand__total-1",
    }


if __name__ == "__main__":
    Path(sys.argv[1], NAME).write_text(json.dumps(trajectory(), indent=2))
