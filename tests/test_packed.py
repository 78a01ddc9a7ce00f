"""Packed layers give what plain ones give."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eagle_core.packed import PackedLinear, can_pack, pack_linears, projection

WEIGHT = torch.randn(24, 16, generator=torch.Generator().manual_seed(0))
BIAS = torch.arange(24.0)

needs_packing = pytest.mark.skipif(not can_pack(WEIGHT), reason="this CPU build packs nothing")


@needs_packing
@pytest.mark.parametrize("bias", [None, BIAS])
@pytest.mark.parametrize("shape", [(1, 16), (5, 16), (2, 40, 16)])
@torch.no_grad()
def test_a_packed_layer_equals_a_plain_one(shape: tuple[int, ...], bias: torch.Tensor) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    expected = nn.functional.linear(x, WEIGHT, bias)
    torch.testing.assert_close(PackedLinear(WEIGHT, bias)(x), expected, atol=1e-5, rtol=1e-5)


@needs_packing
@torch.no_grad()
def test_packing_reaches_every_linear_layer_and_keeps_the_rest() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 4)))
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(2))
    expected = model(x)

    pack_linears(model)

    assert [type(m).__name__ for m in model.modules()].count("PackedLinear") == 2
    torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-5)


def test_a_gradient_passes_a_projection_to_its_input() -> None:
    x = torch.ones(2, 16, requires_grad=True)
    projection(WEIGHT, None)(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, WEIGHT.sum(0).expand(2, 16))


@pytest.mark.skipif(not can_pack(WEIGHT.bfloat16()), reason="no bfloat16 in this CPU's oneDNN")
@pytest.mark.parametrize("num_rows", [1, 5, 40])
@torch.no_grad()
def test_a_bfloat16_layer_is_packed_too(num_rows: int) -> None:
    x = torch.randn(num_rows, 16, generator=torch.Generator().manual_seed(1)).bfloat16()
    packed = PackedLinear(WEIGHT.bfloat16(), BIAS.bfloat16())(x)
    expected = nn.functional.linear(x.double(), WEIGHT.bfloat16().double(), BIAS.double())
    assert packed.dtype is torch.bfloat16
    torch.testing.assert_close(packed.double(), expected, atol=0.02, rtol=2**-8)


def test_float16_stays_plain() -> None:
    layer = nn.Sequential(nn.Linear(16, 4, dtype=torch.float16))
    pack_linears(layer)
    assert isinstance(layer[0], nn.Linear)
