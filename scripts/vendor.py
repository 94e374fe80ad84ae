"""Fetch the vendored browser files again and check every byte against vendor.toml.

Each folder in FOLDERS holds third-party files and a `vendor.toml` that names their package, exact
version, the registry's sha512 integrity of the package, and the sha256 of every file taken out of
it. Only the person who updates a file needs npm; the tests recompute the sha256 without it.

    python scripts/vendor.py            # fetch, check integrity and sha256, write the files
    python scripts/vendor.py --pin      # after changing a version: write the new digests too
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "static/vendor", ROOT / "tests/vendor")
#: The largest file taken (plotly basic, 1.2 MB) with room; one that grows past it is looked at.
FILE_BYTES_MAX = 4 * 1024 * 1024


def fetch(name: str, version: str, folder: Path) -> bytes:
    """The package archive as npm packs it; CalledProcessError if npm cannot get it."""
    answer = subprocess.run(
        ["npm", "pack", "--silent", f"{name}@{version}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return (folder / answer.stdout.strip().splitlines()[-1]).read_bytes()


def integrity(archive: bytes) -> str:
    """The archive's digest the way npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()


def members(archive: bytes, wanted: list[str]) -> dict[str, bytes]:
    """The wanted regular files of the archive; SystemExit naming one that is missing or too big."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for name in wanted:
            member = tar.getmember(f"package/{name}")
            if not member.isfile() or member.size > FILE_BYTES_MAX:
                sys.exit(f"{name} is no plain file of at most {FILE_BYTES_MAX} bytes")
            stream = tar.extractfile(member)
            assert stream is not None
            found[name] = stream.read()
    return found


def main() -> None:
    """Fetch and check every package of every folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pin", action="store_true", help="write the digests that were found")
    pin = parser.parse_args().pin
    for folder in FOLDERS:
        listing = folder / "vendor.toml"
        text = listing.read_text()
        for package in tomllib.loads(text)["package"]:
            with tempfile.TemporaryDirectory() as scratch:
                archive = fetch(package["name"], package["version"], Path(scratch))
            text = checked(text, package["integrity"], integrity(archive), pin, package["name"])
            contents = members(archive, [entry["from"] for entry in package["file"]])
            for entry in package["file"]:
                data = contents[entry["from"]]
                digest = hashlib.sha256(data).hexdigest()
                text = checked(text, entry["sha256"], digest, pin, entry["to"])
                (folder / entry["to"]).write_bytes(data)
                print(f"{entry['to']}: {len(data):,} bytes, sha256 {digest[:12]}…")
        if pin:
            listing.write_text(text)


def checked(text: str, stated: str, found: str, pin: bool, what: str) -> str:
    """`text` with the stated digest replaced when pinning; SystemExit if they differ otherwise."""
    if stated == found:
        return text
    if not pin:
        sys.exit(f"{what}: vendor.toml states {stated}, found {found}; nothing more was written")
    return re.sub(re.escape(stated), found, text, count=1)


if __name__ == "__main__":
    main()
