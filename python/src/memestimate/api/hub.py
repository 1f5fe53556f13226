"""Where a model's configuration comes from: a file, the Hugging Face Hub's cache, a table, or the Hub."""

from __future__ import annotations

import functools
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["known", "read"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What no model has: transformers makes lists of so many, of gigabytes, while it reads a configuration.
_MOST = {"layers": 10_000, "labels": 10_000_000}
_COUNTED = re.compile(r"(?:^|_)(?:n_)?(layer|label)s?$")
_TABLE = Path(__file__).with_name("known.json")


def read(config: str | os.PathLike[str] | PretrainedConfig) -> PretrainedConfig:
    """Return the configuration that a path, a name on the Hub or an object stands for.

    Raises
    ------
    FileNotFoundError
        There is no such file, and no such model can be found.
    ValueError
        The file is no configuration, or names code of its own.
    """
    from transformers import AutoConfig

    if not isinstance(config, (str, os.PathLike)):
        return config
    path = Path(config)
    if not path.exists():
        if isinstance(config, str) and path.suffix != ".json" and _NAME.fullmatch(config):
            return _named(config)
        raise FileNotFoundError(f"{path}: no such configuration; download the model's config.json first")
    if path.is_file() or (path / "config.json").is_file():
        _bounded(path)
    try:
        # None would ask at the terminal whether code that the file names may run
        found: PretrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # of any kind: a file of JSON may say anything
        raise ValueError(f"{path}: no configuration of a model: {line(error)}") from error
    return found


def _bounded(path: Path) -> None:
    """Refuse a file that counts more than any model has, or has attention fetched from the Hub as a program to run."""
    file = path / "config.json" if path.is_dir() else path
    try:
        left: list[Any] = [json.loads(file.read_bytes())]
    except (OSError, RecursionError, ValueError):  # transformers says what is wrong
        return
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        if not isinstance(value, dict):
            continue
        for name, inner in value.items():
            counted = _COUNTED.search(name)
            most = _MOST[counted[1] + "s"] if counted else None
            if most is not None and isinstance(inner, int) and inner > most:
                raise ValueError(f"{file}: {shown(name)} is {str(inner)[:24]}, wanted {most} at most")
            if name.endswith("attn_implementation") and "/" in json.dumps(inner):
                # transformers imports such a one as a module of Python: see integrations/hub_kernels.py there
                raise ValueError(
                    f"{file}: {name} names code of its own, {shown(json.dumps(inner))}, which is not run;"
                    ' take it out, or replace it by "sdpa"'
                )
            left.append(inner)


def _named(name: str) -> PretrainedConfig:
    """The configuration of a model by its name, from this machine where it is here."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from transformers import AutoConfig

    cached = try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str):
        return read(Path(cached))
    values = known().get(name.lower())
    if values is not None:
        kind = values["model_type"]
        found: PretrainedConfig = AutoConfig.for_model(kind, **{k: v for k, v in values.items() if k != "model_type"})
        return found
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=10)  # which does not try again for half a minute
        return read(Path(hf_hub_download(name, "config.json", etag_timeout=10)))
    except Exception as error:  # of any kind: no network, no such model, no right to see it
        raise FileNotFoundError(
            f"{name}: neither in the Hub's cache here nor among the well-known models, and the Hub has not given it:"
            f" {line(error)[:160]}"
        ) from error


@functools.cache
def known() -> dict[str, dict[str, Any]]:
    """Return the configurations of the table by name, in lower case."""
    rows = json.loads(_TABLE.read_text(encoding="utf-8"))
    return {name.lower(): row["config"] for row in rows for name in row["names"]}


def line(error: BaseException) -> str:
    """Return what an error says, as one line of a sensible length, which moves no cursor."""
    return shown(" ".join(str(error).split()))[:300] or type(error).__name__


def shown(text: str) -> str:
    """Return a text of a file as a terminal may have it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:300])
