"""Linear layers laid out once for oneDNN, for passes of a few rows on a CPU.

A plain linear layer lays its weight out anew in every call, which costs as much as the product
itself when only a handful of rows go through.

Knows layers and weights. Knows nothing of what they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor, nn

USUAL_ROWS = 16
"""The layout is chosen for about so many rows; any number of rows gives the same product."""


class PackedLinear(nn.Module):
    """A frozen linear layer for inference, (…, in) to (…, out); no gradient passes through it."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self._bias = None if bias is None else bias.detach()
        self._packed: Any = torch.ops.mkldnn._reorder_linear_weight(
            weight.detach().contiguous(), USUAL_ROWS
        )

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self._bias, "none", [], ""
        )
        return product


def can_pack(weight: Tensor) -> bool:
    """Whether this machine's oneDNN has a layout of its own for this weight."""
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch's own
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and (weight.dtype is torch.float32 or (weight.dtype is torch.bfloat16 and _has_bfloat16()))
    )


@cache
def _has_bfloat16() -> bool:
    """Whether oneDNN computes in bfloat16 here; it wants AVX-512 of an x86 processor."""
    asked = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return asked is not None and bool(asked())


def pack_linears(module: nn.Module) -> None:
    """Replace every linear layer below `module` that can be packed; their weights are let go."""
    for name, child in module.named_children():
        if type(child) is nn.Linear and can_pack(child.weight):
            setattr(module, name, PackedLinear(child.weight, child.bias))
        else:
            pack_linears(child)


def frozen_linear(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """(…, in) to (…, out) by a weight (out, in) that never changes: packed where possible."""
    return (
        PackedLinear(weight, bias).forward
        if can_pack(weight)
        else partial(F.linear, weight=weight, bias=bias)
    )


def projection(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    """(…, in) to (…, out) by a frozen weight (out, in): packed where that is possible, and
    plain for inputs that a gradient shall reach, or that autocast takes to another dtype."""
    plain = partial(F.linear, weight=weight, bias=bias)
    if not can_pack(weight):
        return plain
    packed = PackedLinear(weight, bias)
    return lambda x: plain(x) if x.requires_grad or _is_autocast() else packed(x)


def _is_autocast() -> bool:
    return bool(torch.is_autocast_enabled("cpu"))
