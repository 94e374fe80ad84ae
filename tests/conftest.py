"""Shared by every test: a scrubbed environment, the hypothesis profiles, the order of files."""

from __future__ import annotations

import os
import tempfile

#: Settings of the machine that must not reach the code under test.
_KEPT = ("STRANDLINE_TEST_REQUIRE", "STRANDLINE_SAMPLES")
_DROPPED = (
    "PORT",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONWARNINGS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
)
for _name in [*os.environ]:
    if _name in _DROPPED or (_name.startswith("STRANDLINE_") and _name not in _KEPT):
        del os.environ[_name]
os.environ["HOME"] = tempfile.mkdtemp(prefix="strandline-home-")
os.environ["TZ"] = "UTC"
os.environ["NO_COLOR"] = "1"
os.environ["TERM"] = "dumb"
os.environ["COLUMNS"] = "120"

# Imported after the scrubbing, because these read the environment when they are imported.
import atexit  # noqa: E402
import shutil  # noqa: E402

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

#: Two cores are shared with browsers and child processes: a deadline would test the machine.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _COMMON, print_blob=True)
settings.register_profile("ci", _COMMON, derandomize=True, print_blob=True)
settings.register_profile("soak", _COMMON, max_examples=5_000, print_blob=True)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

#: Files of few but long tests: begun first, so that no worker ends with one of them while the other
#: is idle.
_FIRST = (
    "tests/wheel/test_dockerfile.py",
    "tests/web/test_api_schema.py",
    "tests/wheel/",
    "tests/cli/test_cli_demo.py",
    "tests/contract/test_machine.py",
)
#: Playwright leaves an event loop running in its process, so nothing else comes after it there.
_LAST = "tests/e2e/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; the tests of a file stay as they are written."""

    def place(item: pytest.Item) -> int:
        name = item.nodeid
        if name.startswith(_LAST):
            return len(_FIRST) + 1
        return next((at for at, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST))

    items.sort(key=place)
