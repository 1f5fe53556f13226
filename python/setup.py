"""Build the program with Go and install it among the scripts of an environment, as the wheels of a release have it.

A source distribution brings the program's Go files along, in the folder ``go``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from readme import description  # noqa: E402

BROUGHT = HERE / "go"
SOURCE = BROUGHT if BROUGHT.is_dir() else HERE.parent
PROGRAM = "memestimate" + (".exe" if os.name == "nt" else "")


def go(*args: str, **environment: str) -> str:
    """Call Go among the program's source and return what it prints."""
    try:
        done = subprocess.run(
            ["go", *args], cwd=SOURCE, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
        )
    except FileNotFoundError:
        raise SystemExit(
            "memestimate: its program is built by Go 1.26 or newer, which is not on the path: https://go.dev/dl has it,"
            " and wheels have the program built"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"memestimate: go {args[0]} ended with {error.returncode}, as it says above") from None
    return done.stdout


class BuildProgram(Distribution().get_command_class("build_scripts")):  # type: ignore[misc]
    """Builds the program where scripts would be copied to."""

    def run(self) -> None:
        to = Path(self.build_dir).resolve() / PROGRAM
        go("build", "-trimpath", "-o", str(to), "./cmd/memestimate")


class PlatformWheel(bdist_wheel):  # type: ignore[misc]
    """A wheel of one system and processor, for any Python 3."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class SourceWithGo(sdist):  # type: ignore[misc]
    """Brings the Go files of this module that the program is built from on any system, and what they embed."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        shutil.copy2(HERE / "readme.py", base_dir)
        to = Path(base_dir) / "go"
        kept = {SOURCE / name for name in ("go.mod", "go.sum", "LICENSE", "README.md")}
        for system in ("linux", "darwin", "windows"):
            kept |= self.needed(system)
        for path in sorted(kept):
            at = to / path.relative_to(SOURCE)
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, at)

    @staticmethod
    def needed(system: str) -> set[Path]:
        """Return the files that the program of a system is built from, with C and without."""
        files: set[Path] = set()
        for cgo in ("0", "1"):
            listed = go(
                "list",
                "-deps",
                "-json=Dir,Module,GoFiles,CgoFiles,CFiles,HFiles,EmbedFiles",
                "./cmd/memestimate",
                GOOS=system,
                CGO_ENABLED=cgo,
            )
            decoder, at = json.JSONDecoder(), 0
            while at < len(listed.rstrip()):
                package, at = decoder.raw_decode(listed, at)
                at += len(listed[at:]) - len(listed[at:].lstrip())
                if package.get("Module", {}).get("Main"):
                    for kind in ("GoFiles", "CgoFiles", "CFiles", "HFiles", "EmbedFiles"):
                        files |= {Path(package["Dir"], name) for name in package.get(kind, ())}
        return files


setup(
    long_description=description(SOURCE),
    long_description_content_type="text/markdown",
    scripts=[PROGRAM],  # which BuildProgram makes: so it is no file here
    cmdclass={"build_scripts": BuildProgram, "bdist_wheel": PlatformWheel, "sdist": SourceWithGo},
)
