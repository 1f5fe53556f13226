"""Being told when the program imports a module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ..core.patches import Patches

Then = Callable[[ModuleType], None]


def when_imported(patches: Patches, name: str, then: Then) -> None:
    """Call a function with a module: now if there is one, else as soon as the program has imported it."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    patches.later(lambda: sys.meta_path.remove(finder))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, then: Then) -> None:
        self._name, self._then = name, then
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module as the others find it, with a loader that calls the function."""
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def loaded(self, module: ModuleType) -> None:
        """Call the function, unless the recording is over."""
        if self in sys.meta_path:
            self._then(module)


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to the module's own loader."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, with the loader that it has without us, and tell that it is there."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.loaded(module)
