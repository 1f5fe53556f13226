"""Bilinear layers: one implementation for all devices, which fake tensors run without anybody seeing it."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session

aten = torch.ops.aten
handles: Table[Handler] = Table("bilinear")


@handles(aten._trilinear.default)
def opened(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> torch.Tensor:
    with session.capture:
        return trilinear(*args, **kwargs)


def trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """As Linear.cpp's ``_trilinear``, which goes through one dimension slice by slice.

    Where the first two tensors have no dimension to sum over, all products of a slice are held at once.
    """
    inputs = []
    for tensor, expand in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(expand):
            tensor = tensor.unsqueeze(dim)
        inputs.append(tensor)
    sizes = [max(tensor.shape[dim] for tensor in inputs) for dim in range(inputs[0].dim())]
    first = [dim for dim in sumdim if dim in expand3]
    second = [dim for dim in sumdim if dim not in expand3]
    out = inputs[0].new_zeros([1 if dim in sumdim else size for dim, size in enumerate(sizes)])
    for k in range(sizes[unroll_dim]):
        a, b, c = (
            tensor.narrow(unroll_dim, 0 if unroll_dim in expand else k, 1)
            for tensor, expand in zip(inputs, (expand1, expand2, expand3), strict=True)
        )
        buffer = _sum_of_products(_sum_of_products(a, b, first), c, second)
        (out if unroll_dim in sumdim else out.narrow(unroll_dim, k, 1)).add_(buffer)
        del buffer
    for dim in sorted(sumdim, reverse=True):
        out = out.squeeze(dim)
    return out


def _sum_of_products(a: torch.Tensor, b: torch.Tensor, sums: list[int]) -> torch.Tensor:
    """As Linear.cpp's ``sumproduct_pair``: one batched matrix product, summed dimensions kept with size 1."""
    if not sums:
        return a.mul(b)
    shared, of_a, of_b, summed = [], [], [], []
    for dim in range(a.dim()):
        in_a, in_b = a.shape[dim] != 1, b.shape[dim] != 1
        if dim in sums:
            if in_a and in_b:
                summed.append(dim)
            elif in_a:
                a = a.sum(dim, keepdim=True)
            elif in_b:
                b = b.sum(dim, keepdim=True)
            if not (in_a and in_b):
                of_b.append(dim)  # of size 1 now
        elif in_a and in_b:
            shared.append(dim)
        elif in_a:
            of_a.append(dim)
        else:
            of_b.append(dim)

    def count(tensor: torch.Tensor, dims: list[int]) -> int:
        return torch.Size(tensor.shape[dim] for dim in dims).numel()

    batch, rows, columns, inner = count(a, shared), count(a, of_a), count(b, of_b), count(a, summed)
    left = a.permute(shared + of_a + summed + of_b).reshape(batch, rows, inner)
    right = b.permute(shared + summed + of_b + of_a).reshape(batch, inner, columns)
    product = left.bmm(right)
    order = shared + of_a + summed + of_b
    sizes = [a.shape[d] for d in shared + of_a] + [1] * len(summed) + [b.shape[d] for d in of_b]
    return product.view(sizes).permute([order.index(dim) for dim in range(len(order))])
