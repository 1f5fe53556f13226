#!/usr/bin/env python3
"""Build the wheels of the Python package, each with the program of one system inside, and one without.

    scripts/build_wheels.py VERSION FOLDER [PROGRAM ...]

Each PROGRAM is SYSTEM_PROCESSOR=FILE, such as linux_amd64=dist/memestimate. The program is installed among the
scripts of an environment, so it runs without Python. The same input gives the same bytes: times are those of
SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
import time
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "python" / "src" / "memestimate"
sys.path.insert(0, str(HERE / "python"))
from readme import description

PROJECT = tomllib.loads((HERE / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# The least versions of macOS are those of the Go that builds the program.
TAGS = {
    "darwin_amd64": "macosx_12_0_x86_64",
    "darwin_arm64": "macosx_12_0_arm64",
    "windows_amd64": "win_amd64",
}
PROCESSORS = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_tag(target: str, program: bytes) -> str:
    """Return the platform that a program runs on, for Linux by the newest glibc whose symbols it asks for."""
    if target in TAGS:
        return TAGS[target]
    system, _, processor = target.partition("_")
    if system != "linux" or processor not in PROCESSORS:
        raise SystemExit(f"build_wheels.py: {target} is not linux_amd64, linux_arm64 or one of {', '.join(TAGS)}")
    asked = [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", program)]
    major, minor = max([*asked, (2, 17)])
    return f"manylinux_{major}_{minor}_{PROCESSORS[processor]}"


def metadata(version: str) -> str:
    """Return what an index says of the package."""
    lines = ["Metadata-Version: 2.4", f"Name: {PROJECT['name']}", f"Version: {version}"]
    lines += [f"Summary: {PROJECT['description']}", f"Keywords: {','.join(PROJECT['keywords'])}"]
    lines += [f"Classifier: {classifier}" for classifier in PROJECT["classifiers"]]
    lines += [f"Project-URL: {name}, {url}" for name, url in PROJECT["urls"].items()]
    lines += [f"License-Expression: {PROJECT['license']}", "License-File: LICENSE"]
    lines += [f"Requires-Python: {PROJECT['requires-python']}"]
    for extra, needed in PROJECT["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {what}; extra == "{extra}"' for what in needed)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", description(HERE)])


def entry_points() -> str:
    """Return what other programs load by themselves: the plugin of pytest."""
    groups = PROJECT["entry-points"].items()
    return "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups)


def build(version: str, folder: Path, tag: str, program: tuple[str, bytes] | None) -> Path:
    """Write one wheel, and return where it is."""
    info = f"memestimate-{version}.dist-info"
    files: dict[str, tuple[bytes, int]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[f"memestimate/{path.relative_to(PACKAGE).as_posix()}"] = (path.read_bytes(), 0o644)
    files["memestimate/version.py"] = (
        f'"""The version of the package: that of the program it brings."""\n\nVERSION = "{version}"\n'.encode(),
        0o644,
    )
    if program:
        files[f"memestimate-{version}.data/scripts/{program[0]}"] = (program[1], 0o755)
    pure = "false" if program else "true"
    wheel = f"Wheel-Version: 1.0\nGenerator: memestimate\nRoot-Is-Purelib: {pure}\nTag: py3-none-{tag}\n"
    files[f"{info}/METADATA"] = (metadata(version).encode(), 0o644)
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (entry_points().encode(), 0o644)
    files[f"{info}/licenses/LICENSE"] = ((HERE / "LICENSE").read_bytes(), 0o644)
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, (data, _) in files.items()
    )
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800))[:6]
    path = folder / f"memestimate-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            out.writestr(entry, data)
    return path


def main(args: list[str]) -> None:
    """Build what the command line asks for."""
    if len(args) < 2 or not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", args[0]):
        raise SystemExit(
            "usage: scripts/build_wheels.py VERSION FOLDER [SYSTEM_PROCESSOR=FILE ...], VERSION such as 1.2.3"
        )
    version, folder = args[0], Path(args[1])
    folder.mkdir(parents=True, exist_ok=True)
    print(build(version, folder, "any", None))
    for arg in args[2:]:
        target, _, file = arg.partition("=")
        data = Path(file).read_bytes()
        name = "memestimate.exe" if target.startswith("windows_") else "memestimate"
        print(build(version, folder, platform_tag(target, data), (name, data)))


if __name__ == "__main__":
    main(sys.argv[1:])
