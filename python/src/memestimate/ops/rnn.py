"""Recurrent layers as cuDNN runs them (aten/src/ATen/native/cudnn/RNN.cpp).

PyTorch decides in C++, by addresses, whether a layer's weights are one block, and asks cuDNN for
sizes. Fake tensors have neither, so the layers are put together here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Composite, Handler, Keywords, Table
from ..core.session import Session
from ..values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("rnn")
composes: Table[Composite] = Table("rnn")
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
_KEPT = (2, 2, 6, 7)  # by mode: tensors of [T, N, H] that a layer keeps for backward, measured
_DROPOUT_STATE = 48 << 10  # bytes a multiprocessor of the random numbers' state, measured


class DropoutState:
    """The random numbers' state of dropout between layers, one for the device and for good."""

    def __init__(self, session: Session) -> None:
        self.tensor: torch.Tensor | None = None


def install(session: Session) -> None:
    """Let a module lay its weights into one block, as it does on a GPU."""
    original = nn.RNNBase.flatten_parameters

    def flatten_parameters(module: nn.RNNBase) -> None:
        if any(isinstance(w, FakeTensor) for w in module._flat_weights):
            _flatten(session, module)
        else:
            original(module)

    session.patches.set(nn.RNNBase, "flatten_parameters", flatten_parameters)


def _flatten(session: Session, module: nn.RNNBase) -> None:
    weights = [w for w in module._flat_weights if isinstance(w, FakeTensor)]
    dtypes = {w.dtype for w in weights}
    # torch.backends.cudnn.is_acceptable leaves out bfloat16
    if len(weights) != len(module._flat_weights_names) or len(dtypes) != 1 or not dtypes <= _FLATTENED:
        return
    stride = (4 if module.bias else 2) + (1 if module.proj_size > 0 else 0)
    mode = _MODES[{"RNN_RELU": "rnn_relu", "RNN_TANH": "rnn_tanh"}.get(module.mode, module.mode.lower())]
    block = session.empty((_block_size(weights, stride),), weights[0].dtype)
    sizes = (module.input_size, mode, module.hidden_size, module.proj_size, module.num_layers)
    args = (weights, stride, *sizes, module.batch_first, module.bidirectional)
    session.log(aten._cudnn_rnn_flatten_weight.default, args, {}, block)
    for weight, view in zip(weights, _views(session, block, weights), strict=True):
        weight.data = view


def _views(session: Session, block: torch.Tensor, shapes: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Pieces of a block with the shapes of these tensors, one after the other."""
    views, at = [], 0
    quiet, session.quiet = session.quiet, True
    try:
        with torch.no_grad():
            for like in shapes:
                views.append(block[at : at + like.numel()].view(like.shape).detach())
                at += like.numel()
    finally:
        session.quiet = quiet
    return views


def _padded(mode: int) -> Callable[..., Any]:
    def run(
        session: Session,
        x: torch.Tensor,
        hidden: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        options: tuple[Any, ...] = (num_layers, batch_first, dropout, train, bidirectional, [])
        return _run(session, mode, x, hidden, weights, has_biases, options)

    return run


def _packed(mode: int) -> Callable[..., Any]:
    def run(
        session: Session,
        data: torch.Tensor,
        batch_sizes: torch.Tensor,
        hidden: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> Any:
        options = (num_layers, False, dropout, train, bidirectional, batch_sizes.tolist())
        return _run(session, mode, data, hidden, weights, has_biases, options)

    return run


for _name, _mode in _MODES.items():
    composes(getattr(aten, _name).input)(_padded(_mode))
    composes(getattr(aten, _name).data)(_packed(_mode))


def _run(
    session: Session,
    mode: int,
    x: torch.Tensor,
    hidden: Any,
    weights: Sequence[torch.Tensor],
    biases: bool,
    options: Any,
) -> Any:
    hx, cx = (hidden[0], hidden[1]) if mode == 2 else (hidden, None)
    width, projected = hx.shape[2], 0
    if cx is not None and cx.shape[2] != hx.shape[2]:
        width, projected = cx.shape[2], hx.shape[2]
    stride = (4 if biases else 2) + (1 if projected else 0)
    num_layers, batch_first, dropout, train, bidirectional, batch_sizes = options
    state = _state(session) if dropout > 0 and train else None
    block = None
    if torch.is_autocast_enabled("cuda"):
        # _cudnn_rnn_cast_reflatten (cudnn/AutocastRNN.cpp) casts to float16, whatever autocast's type is,
        # and lays the weights into another block.
        dtype = torch.float16
        x, hx = x.to(dtype), hx.to(dtype)
        cx = None if cx is None else cx.to(dtype)
        block = torch.empty(_block_size(weights, stride), dtype=dtype, device=x.device)
        views = _views(session, block, weights)
        for view, weight in zip(views, weights, strict=True):
            view.copy_(weight)
        weights = views
    elif len({session.storages.of_address(w) for w in weights}) == 1:
        block = _block(session, weights, stride)
    with torch.autocast("cuda", enabled=False):
        out = aten._cudnn_rnn(
            x, list(weights), stride, block, hx, cx, mode, width, projected,
            num_layers, batch_first, dropout, train, bidirectional, batch_sizes, state,
        )  # fmt: skip
    return (out[0], out[1], out[2]) if mode == 2 else (out[0], out[1])


def _block(session: Session, weights: Sequence[torch.Tensor], stride: int) -> torch.Tensor:
    """The block of which all these are pieces."""
    quiet, session.quiet = session.quiet, True
    try:
        with torch.no_grad():
            return weights[0].detach().as_strided((_block_size(weights, stride),), (1,), 0)
    finally:
        session.quiet = quiet


def _state(session: Session) -> torch.Tensor:
    """The random numbers' state, one for the device and for good."""
    kept = session.part(DropoutState)
    if kept.tensor is None:
        size = _DROPOUT_STATE * session.gpu.multiprocessors
        kept.tensor = session.empty((size,), torch.uint8)
        op = aten._cudnn_init_dropout_state.default
        session.log(op, (0.0, True, 0), {}, kept.tensor)
    return kept.tensor


@handles(aten._cudnn_rnn.default)
def _forward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    x, weights, stride, block, hx, cx, mode = args[:7]
    width, projected, layers, batch_first, dropout, train, both, batch_sizes = args[7:15]
    empty = session.empty
    directions = 2 if both else 1
    out_width = hx.shape[2] * directions
    shape = (x.shape[0], out_width) if batch_sizes else (*x.shape[:2], out_width)
    if batch_first and not batch_sizes:  # made with the time first, seen with the batch first
        n, _, h = shape
        y = empty(shape, x.dtype, (h, n * h, 1))
    else:
        y = session.empty(shape, x.dtype)
    hy = session.empty(tuple(hx.shape), x.dtype)
    cy = session.empty((0,) if cx is None else tuple(cx.shape), x.dtype)
    reserve = 0
    if train:
        kept = (_KEPT[mode] * width + (width + projected if projected else 0)) * layers - width
        reserve = x.shape[:-1].numel() * directions * kept * x.element_size() + 256
        if dropout > 0 and layers > 1:  # a bit for each element, also of those that a packed batch leaves out
            steps = len(batch_sizes) * batch_sizes[0] if batch_sizes else x.shape[:-1].numel()
            reserve += steps * out_width * directions * (layers - 1) // 8
    result = block if block is not None else session.empty((_block_size(weights, stride),), weights[0].dtype)
    out = (y, hy, cy, session.empty((reserve,), torch.uint8), result)
    session.log(func, args, kwargs, out)
    return out


@handles(aten._cudnn_rnn_backward.default)
def _backward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    x, weights, stride, _, hx, cx = args[:6]
    wanted = args[-1]
    dx = session.empty(tuple(x.shape), x.dtype)
    dhx = session.empty(tuple(hx.shape), hx.dtype)
    dcx = None if cx is None else session.empty(tuple(cx.shape), cx.dtype)
    dw: list[torch.Tensor] = []
    if wanted[3] and stride < 4:  # copies out of a block that has biases, which these weights have not
        dw = [session.empty(tuple(w.shape), w.dtype) for w in weights]
    elif wanted[3]:
        block = session.empty((sum(w.numel() for w in weights),), weights[0].dtype)
        dw = _views(session, block, weights)
    out = (dx, dhx, dcx, dw)
    session.log(func, args, kwargs, out)
    return out


@handles(aten._thnn_fused_lstm_cell.default)
def _lstm_cell(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """`_thnn_fused_lstm_cell_cuda` (cuda/RNN.cu); PyTorch's rule of shapes fails where a cell has no biases."""
    gates, _, cx = args[:3]
    hy, cy = (session.empty(cx.shape, cx.dtype) for _ in range(2))
    out = hy, cy, session.empty(gates.shape, gates.dtype)
    session.log(func, args, kwargs, out)
    return out


@handles(aten._thnn_fused_gru_cell.default)
def _gru_cell(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """`_thnn_fused_gru_cell_cuda` (cuda/RNN.cu): the state, and five numbers of each of its own for backward."""
    hx = args[2]
    out = session.empty(hx.shape, hx.dtype), session.empty((hx.shape[0], 5 * hx.shape[1]), hx.dtype)
    session.log(func, args, kwargs, out)
    return out


@handles(aten._thnn_fused_gru_cell_backward.default)
def _gru_cell_backward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """`_thnn_fused_gru_cell_backward_cuda`: gradients of both kinds of gates, of the state, and their sums."""
    grad, workspace, has_bias = args
    batch, width = workspace.shape[0], workspace.shape[1] // 5
    gates = [session.empty((batch, 3 * width), workspace.dtype) for _ in range(2)]
    state = session.empty(grad.shape, grad.dtype)
    biases = [session.empty((3 * width,), workspace.dtype) if has_bias else None for _ in range(2)]
    out = (*gates, state, *biases)
    session.log(func, args, kwargs, out)
    return out


@handles(aten._pack_padded_sequence.default)
def _pack(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    x, lengths, batch_first = args
    if lengths.device.type != "cpu":  # checkLongTensor of aten/src/ATen/native/PackedSequence.cpp
        text = "'lengths' argument should be a 1D CPU int64 tensor, but got {}D {} Long tensor"
        raise RuntimeError(text.format(lengths.dim(), lengths.device))
    known = session.part(Values).get(lengths)
    if known is None:
        known = torch.full(lengths.shape, x.shape[1 if batch_first else 0], dtype=torch.int64, device="cpu")
    lengths = known.tolist()
    sizes = torch.tensor([sum(n > t for n in lengths) for t in range(max(lengths))], device="cpu")
    with session.capture:
        return torch.cat(_pieces(x.transpose(0, 1) if batch_first else x, lengths)), sizes


def _pieces(x: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """The steps of a padded batch, one piece for all that are of as many samples (PackedSequence.cpp)."""
    pieces, done = [], 0
    for i, length in enumerate(reversed(lengths)):
        if length > done:
            piece = x[done:length, : len(lengths) - i].contiguous()
            pieces.append(piece.view(piece.shape[0] * piece.shape[1], *piece.shape[2:]))
            done = length
    return pieces


def _block_size(weights: Sequence[torch.Tensor], stride: int) -> int:
    """
    Return how many elements the block of a module's weights has.

    Parameters
    ----------
    weights
        Of all layers and directions: ``[gates * hidden, input]`` and so on.
    stride
        How many weights a layer and direction has. cuDNN's block has two biases for each, also where the module has
        none, and so fewer than four (two matrices, and one for a projection).
    """
    size = sum(w.numel() for w in weights)
    return size if stride >= 4 else size + 2 * weights[0].shape[0] * (len(weights) // stride)


_FLATTENED = {torch.float16, torch.float32, torch.float64}
