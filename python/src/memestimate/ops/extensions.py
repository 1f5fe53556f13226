"""Operators of others that have no rule of shapes: run as they are where they are Python, else named, with the cure."""

from __future__ import annotations

import sys
from typing import Any

from torch._library import custom_ops
from torch._ops import OpOverload

from ..core.handlers import Arguments, Keywords
from ..core.session import Session

_OWN = {
    "aten",
    "prim",
    "prims",
    "torchvision",
    "torchaudio",
}  # of PyTorch's family, whose rules are missing for a reason
_READ = "Cannot access data pointer"  # what a fake tensor says to C++ that wants its memory


def run(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Run an operator that `torch.library.custom_op` made on pretended tensors, as a GPU would; or NotImplemented.

    Its function is Python, which allocates by PyTorch and launches Triton's kernels.
    """
    defined = custom_ops.OPDEFS.get(func._schema.name)
    if defined is None:
        return NotImplemented
    body = defined._backend_fns.get("cuda") or defined._backend_fns.get(None)
    if body is None:
        return NotImplemented
    with session.capture:
        return body(*args, **kwargs)


def cure(func: OpOverload) -> str:
    """What a program says so that an operator of an extension can be recorded; "" of PyTorch's own."""
    if func.namespace in _OWN:
        return ""
    names = [argument.name for argument in func._schema.arguments]
    is_tensor = [str(argument.type) == "Tensor" for argument in func._schema.arguments]
    like = next((name for name, tensor in zip(names, is_tensor, strict=True) if tensor), "...")
    made = [f"torch.empty_like({like})" if str(result.type) == "Tensor" else "..." for result in func._schema.returns]
    return (
        "; say it before the step, with the right shapes and types:\n"
        f'@torch.library.register_fake("{func._schema.name}")\n'
        f"def _({', '.join(names)}):\n"
        f"    return {', '.join(made) or None}"
    )


def explain(session: Session, error: BaseException) -> None:
    """Say to an exception that a C++ extension raised, which is no operator, how it can be recorded."""
    if _READ not in str(error) or sys.version_info < (3, 11):
        return
    error.add_note(
        "memestimate: compiled code read a tensor of the pretended GPU, which has no memory. Make it an operator with "
        "torch.library.custom_op and give its result's shape with register_fake; then it is recorded."
    )
