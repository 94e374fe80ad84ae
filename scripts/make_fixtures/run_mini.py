"""Run mini-swe-agent (2.x) on the scenarios and keep the trajectories it writes.

    python run_mini.py FOLDER            all scenarios, each in a process of its own
    python run_mini.py FOLDER --only X   one of them, in this process (used by the first form)

Needs an environment with mini-swe-agent; see README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402
from minisweagent.models.litellm_model import LitellmModel  # noqa: E402
from scenarios import ALL, Scenario  # noqa: E402
from scripted_server import ScriptedServer  # noqa: E402

RUNS = Path("/tmp/mini-runs")
MODEL = "scripted-coder-1"
PRICES = {
    f"openai/{MODEL}": {
        "input_cost_per_token": 2e-06,
        "output_cost_per_token": 8e-06,
        "cache_read_input_token_cost": 5e-07,
        "litellm_provider": "openai",
        "mode": "chat",
        "max_tokens": 8192,
    }
}
SYSTEM = "You repair small programs by running shell commands.\n"
INSTANCE = (
    "This is your task:\n\n{{task}}\n\n"
    "Work in the present folder. Call the bash tool at least once in every reply. Each call runs "
    "in a shell of its own. When the task is done, print COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT as "
    "the first line of a command's output; what follows it is handed in.\n"
)
OBSERVATION = (
    "{%- if output.output | length < 6000 -%}\n"
    '{"returncode": {{ output.returncode }}, "output": {{ output.output | tojson }}'
    "{% if output.exception_info %}, "
    '"exception_info": {{ output.exception_info | tojson }}{% endif %}}\n'
    "{%- else -%}\n"
    '{"returncode": {{ output.returncode }}, "output_head": {{ output.output[:2000] | tojson }}, '
    '"output_tail": {{ output.output[-2000:] | tojson }}, '
    '"elided_chars": {{ output.output | length - 4000 }}, '
    '"warning": "The output was too long and was cut in the middle."}\n'
    "{%- endif -%}"
)
FORMAT_ERROR = (
    "Your reply could not be used.\n\n<error>\n{{ error }}\n</error>\n\n"
    "Reply again, with at least one call of the bash tool.\n"
)


def environment() -> dict[str, str]:
    """A small environment, so that nothing of this machine reaches the files."""
    home = RUNS / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Fixture",
        "GIT_AUTHOR_EMAIL": "fixture@example.invalid",
        "GIT_COMMITTER_NAME": "Fixture",
        "GIT_COMMITTER_EMAIL": "fixture@example.invalid",
        "OPENAI_API_KEY": "not-a-key",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(RUNS / "config"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def prepare(scenario: Scenario) -> Path:
    """A fresh folder with the scenario's files, under git."""
    folder = RUNS / scenario.name
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in scenario.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for command in (["git", "init", "-q", "-b", "main"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=folder, env=environment(), check=True)
    subprocess.run(["git", "commit", "-qm", "Start"], cwd=folder, env=environment(), check=True)
    return folder


def run(scenario: Scenario, out: Path) -> None:
    """Run one scenario in this process."""
    folder = prepare(scenario)
    prices = RUNS / "prices.json"
    prices.write_text(json.dumps(PRICES))
    server = ScriptedServer(MODEL, scenario.replies)
    model = LitellmModel(
        model_name=f"openai/{MODEL}",
        model_kwargs={"api_base": server.url, "temperature": 0.0, "drop_params": True},
        litellm_model_registry=str(prices),
        observation_template=OBSERVATION,
        format_error_template=FORMAT_ERROR,
    )
    agent = DefaultAgent(
        model,
        LocalEnvironment(cwd=str(folder), timeout=scenario.timeout),
        system_template=SYSTEM,
        instance_template=INSTANCE,
        cost_limit=1.0,
        output_path=out,
        **scenario.agent,
    )
    try:
        print(scenario.name, agent.run(scenario.task).get("exit_status"))
    finally:
        server.close()


def run_all(folder: Path) -> None:
    """Each scenario in a child, interrupted where it says so."""
    for scenario in ALL:
        out = folder / f"{scenario.name}.traj.json"
        child = subprocess.Popen(
            [sys.executable, __file__, str(folder), "--only", scenario.name], env=environment()
        )
        if scenario.interrupt_at is not None:
            started = RUNS / scenario.name / ".started"
            deadline = time.monotonic() + 60
            while not started.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            child.send_signal(signal.SIGINT)
        child.wait(timeout=120)
        print(out.name, out.stat().st_size, "bytes")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.only is None:
        shutil.rmtree(RUNS, ignore_errors=True)
        run_all(given.folder)
        return
    (scenario,) = [one for one in ALL if one.name == given.only]
    run(scenario, given.folder / f"{scenario.name}.traj.json")


if __name__ == "__main__":
    os.umask(0o022)
    main()
