"""The Dockerfile's own lines, run in clean roots: no container engine is needed, or proved.

Each stage gets a root of its own: an overlay over this system in which a new virtual environment
plays the base image's Python. COPY, RUN, ENV and USER lines are carried out as they stand; then
the entry point and the health check run as the image's user in a network of their own. What this
cannot show: the base image itself, layers, and how an engine runs HEALTHCHECK and VOLUME.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.require import ROOT, need
from tests.wheel.packaging import tracked_files

TOKEN = "stl_only_for_this_test_0123456789abcdef"


@dataclass
class Stage:
    """One FROM and what follows it."""

    base: str
    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        return [text for word, text in self.lines if word == instruction][-1]


def stages() -> list[Stage]:
    """The instructions of the Dockerfile; continued lines are not used there."""
    found: list[Stage] = []
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, text = line.split(None, 1)
        if word == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name))
        else:
            found[-1].lines.append((word, text))
    return found


def context(into: Path) -> Path:
    """What .dockerignore lets through; it names what is let in, never what is kept out."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines, "everything is kept out unless it is named"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    for name in tracked_files():
        if any(name == entry or name.startswith(f"{entry}/") for entry in allowed):
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    return into


@dataclass
class Root:
    """An overlay root; every command mounts it in a mount namespace of its own."""

    folder: Path
    environment: dict[str, str]
    workdir: str = "/"

    def run(
        self,
        command: str,
        *,
        user: str = "0",
        network: bool = True,
        volume: tuple[Path, str] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        spaces = ["unshare", "--mount", *([] if network else ["--net"])]
        up = "true" if network else "ip link set lo up 2>/dev/null || ifconfig lo up"
        bound = f"mount --bind {volume[0]} {self.folder}/merged{volume[1]} && " if volume else ""
        mounts = (
            f"mount -t overlay overlay -o lowerdir=/,upperdir={self.folder}/upper,"
            f"workdir={self.folder}/work {self.folder}/merged && "
            f"mount --bind /proc {self.folder}/merged/proc && "
            f"mount --bind /dev {self.folder}/merged/dev && {up} && {bound}"
            f"exec chroot --userspec={user}:{user} {self.folder}/merged /bin/sh -c "
            + shlex.quote(f"cd {self.workdir} && {command}")
        )
        done = subprocess.run(
            [*spaces, "sh", "-c", mounts],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def upper(self, path: str) -> Path:
        return self.folder / "upper" / path.lstrip("/")


def new_root(space: Path, name: str) -> Root:
    folder = space / name
    for part in ("upper", "work", "merged"):
        (folder / part).mkdir(parents=True)
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}
    # Compiling what is never imported would be most of the time.
    environment = {
        **kept,
        "PIP_NO_COMPILE": "1",
        "PATH": "/usr/local/image/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    root = Root(folder, environment)
    # This machine's temporary files are not the image's: an opaque folder hides them.
    root.upper("/tmp").mkdir()
    root.upper("/tmp").chmod(0o1777)
    os.setxattr(root.upper("/tmp"), "trusted.overlay.opaque", b"y")
    # The base image's Python: world-readable, unlike one that lies in root's home.
    python = f"{sys.base_prefix}/bin/python3.{sys.version_info.minor}"
    root.run(f"{python} -m venv --copies /usr/local/image && chmod 755 /root")
    return root


def copy(root: Root, text: str, context_folder: Path, others: dict[str, Root]) -> None:
    words = text.split()
    source = context_folder
    if words[0].startswith("--from="):
        source = others[words.pop(0).removeprefix("--from=")].folder / "upper"
    *patterns, target = words
    into = root.upper(target if target.startswith("/") else f"{root.workdir}/{target}")
    into.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        if pattern == ".":
            shutil.copytree(source, into, dirs_exist_ok=True)
            continue
        matched = list(source.glob(pattern.lstrip("/")))
        assert matched, f"COPY {pattern} matches nothing"
        for path in matched:
            shutil.copy2(path, into)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    """The last stage's root after all its lines."""
    need("root")
    space = tmp_path_factory.mktemp("image")
    # An overlay's upper folder may not itself lie on an overlay; a tmpfs of our own always works.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", space], capture_output=True, check=False
    )
    need("overlay", mounted.returncode == 0, "this machine does not let a test mount a tmpfs")
    try:
        probe = new_root_possible(space)
        need("overlay", probe, "this machine does not let a test mount an overlay")
        yield build(space)
    finally:
        subprocess.run(["umount", "--lazy", space], check=True)


def new_root_possible(space: Path) -> bool:
    for part in ("u", "w", "r"):
        (space / part).mkdir()
    options = f"lowerdir=/,upperdir={space}/u,workdir={space}/w"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, space / "r"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def build(space: Path) -> Root:
    context_folder = context(space / "context")
    roots: dict[str, Root] = {}
    root = None
    for number, stage in enumerate(stages()):
        assert stage.base.startswith("python:3.")
        root = roots[stage.name] = new_root(space, f"stage{number}")
        for word, text in stage.lines:
            if word == "WORKDIR":
                root.workdir = text
                root.upper(text).mkdir(parents=True, exist_ok=True)
            elif word == "COPY":
                copy(root, text, context_folder, roots)
            elif word == "RUN":
                root.run(text)
            elif word == "ENV":
                root.environment |= dict(part.split("=", 1) for part in shlex.split(text))
    assert root is not None
    return root


def user_of(root: Root) -> str:
    name = stages()[-1].last("USER")
    entry = re.search(rf"^{name}:x:(\d+):", root.upper("/etc/passwd").read_text(), re.MULTILINE)
    assert entry and int(entry[1]) >= 1000, "the image's user is not root"
    return entry[1]


def volume(root: Root, folder: Path) -> tuple[Path, str]:
    """A folder of a real disk in place of the image's volume, with the image's owner and mode."""
    (path,) = json.loads(stages()[-1].last("VOLUME"))
    made = root.upper(path).stat()
    os.chown(folder, made.st_uid, made.st_gid)
    folder.chmod(made.st_mode & 0o777)
    return folder, path


def entry_point() -> str:
    last = stages()[-1]
    return shlex.join([*json.loads(last.last("ENTRYPOINT")), *json.loads(last.last("CMD"))])


def health_check() -> str:
    return shlex.join(json.loads(stages()[-1].last("HEALTHCHECK").split(" CMD ", 1)[1]))


def test_the_image_serves_as_its_own_user_and_is_healthy(image: Root, tmp_path: Path) -> None:
    served = image.run(
        f"export STRANDLINE_TOKEN={TOKEN}; {entry_point()} >/tmp/log 2>&1 & server=$!; "
        f"for try in $(seq 100); do {health_check()} 2>/dev/null && break; sleep 0.2; done; "
        f"{health_check()}; healthy=$?; cat /proc/$server/status | grep ^Uid; "
        "ls -l /data/store-000001.db; kill -TERM $server; wait $server; stopped=$?; "
        "cat /tmp/log; echo healthy=$healthy stopped=$stopped",
        user=user_of(image),
        network=False,
        volume=volume(image, tmp_path),
    )
    assert "healthy=0 stopped=0" in served.stdout, served.stdout + served.stderr
    assert f"Uid:\t{user_of(image)}" in served.stdout
    assert TOKEN not in served.stdout, "the token is never logged"


def test_the_image_refuses_to_serve_beyond_loopback_without_a_token(
    image: Root, tmp_path: Path
) -> None:
    refused = image.run(
        f"timeout 30 {entry_point()}",
        user=user_of(image),
        network=False,
        volume=volume(image, tmp_path),
        check=False,
    )
    assert refused.returncode not in (0, 124), refused.stdout
    assert "STRANDLINE_TOKEN" in refused.stdout + refused.stderr


def test_the_installed_environment_holds_what_the_lock_says(image: Root) -> None:
    frozen = image.run("pip freeze --exclude strandline").stdout.splitlines()
    installed = {line.split("==")[0].lower().replace("_", "-"): line for line in frozen if line}
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    versions = dict(locked)
    for name, line in installed.items():
        assert line.split("==")[1] == versions[name], line
    assert "strandline" in image.run("pip list").stdout


def test_nothing_but_the_named_is_sent_to_the_build(tmp_path: Path) -> None:
    sent = {path.relative_to(tmp_path).parts[0] for path in context(tmp_path).rglob("*")}
    assert sent & {".git", ".venv", ".env", "tests", "bench", "data", ".demo"} == set()
