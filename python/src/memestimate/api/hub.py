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
    try:
        # None would ask at the terminal whether code that the file names may run
        found: PretrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # of any kind: a file of JSON may say anything
        raise ValueError(f"{path}: no configuration of a model: {line(error)}") from error
    return found


def _named(name: str) -> PretrainedConfig:
    """The configuration of a model by its name, from this machine where it is here."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
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
    """Return what an error says, as one line of a sensible length."""
    return " ".join(str(error).split())[:300] or type(error).__name__
