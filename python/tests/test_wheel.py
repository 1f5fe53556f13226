"""The wheels say of themselves what pyproject.toml says, and bring the plugin of pytest."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_wheel_describes_itself(tmp_path: Path) -> None:
    fake = tmp_path / "memestimate"
    fake.write_bytes(b"GLIBC_2.34")
    command = [sys.executable, "scripts/build_wheels.py", "1.2.3", str(tmp_path), f"linux_amd64={fake}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for wheel, has_program in (
        ("memestimate-1.2.3-py3-none-any.whl", False),
        ("memestimate-1.2.3-py3-none-manylinux_2_34_x86_64.whl", True),
    ):
        with zipfile.ZipFile(tmp_path / wheel) as files:
            about = email.message_from_bytes(files.read("memestimate-1.2.3.dist-info/METADATA"))
            plugins = files.read("memestimate-1.2.3.dist-info/entry_points.txt").decode()
            assert ("memestimate-1.2.3.data/scripts/memestimate" in files.namelist()) == has_program
            assert "memestimate/api/pytest_plugin.py" in files.namelist()
            assert b'"1.2.3"' in files.read("memestimate/version.py")
        assert plugins == "[pytest11]\nmemestimate = memestimate.api.pytest_plugin\n"
        assert "Framework :: Pytest" in (about.get_all("Classifier") or [])
        assert len(about.get_all("Project-URL") or []) == 4
        assert set(about.get_all("Provides-Extra") or []) == {"torch", "live"}
        readme = str(about.get_payload())
        assert readme.startswith("# memestimate\n")
        assert "blob/main/docs/accuracy.md)" in readme
        assert not re.search(r"\]\((?!https:)", readme), "no link of the index leads nowhere"
