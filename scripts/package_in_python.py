"""The build backend of the clone's root: that of the folder ``python``."""

import os
from pathlib import Path

from setuptools.build_meta import *  # the hooks, which look in the working folder

os.chdir(Path(__file__).resolve().parent.parent / "python")
