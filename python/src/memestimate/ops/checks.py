"""Whether PyTorch decides, on this machine and in this version, as the pretended GPU would.

Much of what a step allocates hangs on choices that PyTorch makes by looking at the device: a kernel, a
cast, a path of the optimizer. A small trial shows them before anything is recorded; a choice that came
out otherwise is noted in the recording, which is then of another step than the GPU's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..core.session import Session
from . import attention

_tried: dict[tuple[object, ...], list[str]] = {}  # what came out otherwise in this process, by what it depends on


def check(session: Session) -> list[str]:
    """Run the trial where the process has not, and note each choice that is not the GPU's; returns what was noted."""
    of = session.gpu, session.way, torch.backends.cudnn.enabled
    if of not in _tried:
        seen: list[str] = []
        session.quiet, session.seen = True, seen
        try:
            with torch.enable_grad(), torch.autocast("cuda", enabled=False):
                wanted = _trial(session)
        finally:
            session.quiet, session.seen = False, None
        _tried[of] = [f"{what}: {op} was wanted and did not run" for what, op in wanted if op not in seen]
    for text in _tried[of]:
        session.note("check", f"this step is not the one of a GPU: {text}")
    return _tried[of]


def _trial(session: Session) -> list[tuple[str, str]]:
    """Do a little of everything; returns pairs of what was tried and the operator that a GPU runs."""
    wanted = []
    x = torch.ones(2, 8, 4, 4, device="cuda")
    scale = nn.Parameter(torch.ones(8, device="cuda"))
    if torch.backends.cudnn.enabled:
        F.batch_norm(x, None, None, scale, scale, training=True)
        wanted.append(("batch norm", "cudnn_batch_norm"))
    F.dropout(x, 0.5)
    wanted.append(("dropout", "native_dropout"))
    rows = x.view(1, 2, 16, 8)
    kernel = attention.decide(session, rows, rows, rows)
    names = {"math": "_safe_softmax"}
    F.scaled_dot_product_attention(rows, rows, rows)
    wanted.append(("attention", names.get(kernel, f"_scaled_dot_product_{kernel}_attention")))
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            product = rows[0, 0] @ rows[0, 0].t()
            if product.dtype is not dtype:
                wanted.append(("autocast", f"a cast to {str(dtype)[6:]}"))
            if product.softmax(-1).dtype is not torch.float32:
                wanted.append(("autocast", "a softmax in float32"))
    if not torch.amp.grad_scaler.GradScaler("cuda").is_enabled():
        wanted.append(("gradient scaler", "a scaler that scales"))
    images = x.contiguous(memory_format=torch.channels_last)
    images = F.conv2d(images, torch.ones(8, 8, 1, 1, device="cuda"))
    if torch.backends.cudnn.enabled and not images.is_contiguous(memory_format=torch.channels_last):
        wanted.append(("convolution", "a result with the channels last"))
    F.grid_sample(x, torch.ones(2, 4, 4, 2, device="cuda"), align_corners=True)
    if torch.backends.cudnn.enabled:
        wanted.append(("grid sampler", "cudnn_grid_sampler"))
    gates = torch.ones(2, 12, device="cuda"), torch.ones(12, 4, device="cuda")
    torch.gru_cell(gates[0][:, :4], gates[0][:, :4], gates[1], gates[1])
    wanted.append(("recurrent cells", "_thnn_fused_gru_cell"))
    (scale * 2).sum().backward()
    if scale.grad is None:
        wanted.append(("backward", "AccumulateGrad"))
    nn.utils.clip_grad_norm_([scale], 1.0)
    wanted.append(("clipping", "_foreach_norm"))
    torch.optim.SGD([scale], lr=0.1).step()
    wanted.append(("optimizers", "_foreach_add_"))
    return wanted
