"""Linear layers whose weights are whole numbers of 8 or 4 bits; activations stay bfloat16.

    int8   w ≈ code·scale               a scale per output, codes -127 … 127
    int4   w ≈ (code - 8)·scale + zero   a scale and a zero per 32 inputs, codes 0 … 15

How many rows a pass has decides which int8 kernel is fastest. All of them multiply the same
numbers and round in the same places; only the order of summation differs, as in any other dtype.
int4 has one kernel, which reads the codes as they are: a copy in bfloat16 would round the weights
anew, and trees would be checked by another model than the one that decodes plainly.

Knows layers and weights. Knows nothing of what they belong to. The layouts are gpt-fast's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor, nn

from eagle_core.packed import frozen_linear

Quantisation = Literal["int8", "int4"]

GROUP = 32
"""Inputs of an int4 row that share a scale and a zero."""

KEPT_BYTES = 1 << 30
"""A model's int8 codes are also kept as packed bfloat16, two bytes more a weight, up to so many."""

FEW_ROWS = 2
"""Up to here the int8 kernel is faster than a packed bfloat16 copy of the codes…"""

SEVERAL_ROWS = 16
"""…and up to here faster than making such a copy in every pass."""

_BLOCK = 8192  # outputs that are de-quantised at a time
_INT8_INPUTS = 32  # the int8 kernel reads blocks of inputs, and past the end of what is no block
_INT4_OUTPUTS = 16  # the int4 kernel takes multiples of so many

Product: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Int8Weight:
    """(out, in) by symmetric codes."""

    codes: Tensor  # (out, in) int8
    scales: Tensor  # (out,) bfloat16

    @classmethod
    def of(cls, weight: Tensor) -> Int8Weight:
        wide = weight.detach().float()
        scales = _nonzero(wide.abs().amax(1) / 127).bfloat16()
        codes = (wide / scales.float()[:, None]).round_().clamp_(-127, 127)
        return cls(codes.to(torch.int8), scales)

    @classmethod
    def joined(cls, weights: Sequence[Int8Weight]) -> Int8Weight:
        return cls(
            torch.cat([weight.codes for weight in weights]),
            torch.cat([weight.scales for weight in weights]),
        )

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape

    def rows(self, outputs: Tensor | slice) -> Int8Weight:
        return Int8Weight(self.codes[outputs], self.scales[outputs])

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        return (self.codes.float() * self.scales.float()[:, None]).to(dtype)

    def product(self, *, keeps_copy: bool) -> Product:
        """(R, in) bfloat16 to (R, out): the sum is rounded, then scaled, whatever R is."""
        codes, scales, ones = self.codes, self.scales, torch.ones_like(self.scales)
        many = frozen_linear(codes.bfloat16(), None) if keeps_copy else _unkept(codes)
        most = FEW_ROWS if keeps_copy else SEVERAL_ROWS
        if codes.shape[1] % _INT8_INPUTS:
            most = 0

        def product(x: Tensor) -> Tensor:
            sums = torch._weight_int8pack_mm(x, codes, ones) if len(x) <= most else many(x)
            return sums.mul_(scales)

        return product


@dataclass(frozen=True, eq=False)
class Int4Weight:
    """(out, in) by codes between the least and the greatest weight of each group of inputs."""

    codes: Tensor  # (out, in) uint8
    scales: Tensor  # (out, groups) bfloat16
    zeros: Tensor  # (out, groups) bfloat16, the weight of code 8

    @classmethod
    def of(cls, weight: Tensor) -> Int4Weight:
        num_inputs = weight.shape[1]
        groups = _grouped(weight.detach().float())  # (out, groups, GROUP)
        least, most = groups.amin(2), groups.amax(2)
        scales = _nonzero((most - least) / 15).bfloat16()
        zeros = (least + 8 * scales.float()).bfloat16()
        codes = (groups - zeros.float()[..., None]) / scales.float()[..., None] + 8
        codes = codes.round_().clamp_(0, 15).to(torch.uint8).flatten(1)
        return cls(codes[:, :num_inputs].contiguous(), scales, zeros)

    @classmethod
    def joined(cls, weights: Sequence[Int4Weight]) -> Int4Weight:
        return cls(
            torch.cat([weight.codes for weight in weights]),
            torch.cat([weight.scales for weight in weights]),
            torch.cat([weight.zeros for weight in weights]),
        )

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape

    def rows(self, outputs: Tensor | slice) -> Int4Weight:
        return Int4Weight(self.codes[outputs], self.scales[outputs], self.zeros[outputs])

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        num_inputs = self.codes.shape[1]
        centred = _grouped(self.codes.float()) - 8
        wide = centred * self.scales.float()[..., None] + self.zeros.float()[..., None]
        return wide.flatten(1)[:, :num_inputs].to(dtype)

    def product(self, *, keeps_copy: bool) -> Product:
        """(R, in) bfloat16 to (R, out); there is never a copy."""
        num_outputs, num_inputs = self.codes.shape
        missing = -num_inputs % GROUP
        packed, scales_zeros = self._packed()

        def product(x: Tensor) -> Tensor:
            read: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
                F.pad(x, (0, missing)) if missing else x, packed, GROUP, scales_zeros
            )
            return read[:, :num_outputs]

        return product

    def _packed(self) -> tuple[Tensor, Tensor]:
        """In the kernel's own layout, filled up to sizes that it takes."""
        fill = -len(self.codes) % _INT4_OUTPUTS
        codes = F.pad(self.codes.int(), (0, -self.codes.shape[1] % GROUP, 0, fill))
        both = torch.stack([self.scales, self.zeros], dim=-1)  # (out, groups, 2)
        both = F.pad(both, (0, 0, 0, 0, 0, fill)).transpose(0, 1).contiguous()
        return torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1), both


QuantisedWeight: TypeAlias = Int8Weight | Int4Weight
KINDS: dict[Quantisation, type[QuantisedWeight]] = {"int8": Int8Weight, "int4": Int4Weight}


class QuantisedLinear(nn.Module):
    """A frozen linear layer, (…, in) bfloat16 to (…, out), over quantised weights."""

    def __init__(
        self, weight: QuantisedWeight, bias: Tensor | None = None, *, keeps_copy: bool = True
    ) -> None:
        super().__init__()
        self.weight: Any = weight
        self.bias = None if bias is None else bias.detach().bfloat16()
        self.keeps_copy = keeps_copy

    @classmethod
    def joined(cls, linears: Sequence[QuantisedLinear]) -> QuantisedLinear:
        """Several layers over the same input as one."""
        first = linears[0]
        weight = type(first.weight).joined([linear.weight for linear in linears])
        biases = [linear.bias for linear in linears if linear.bias is not None]
        bias = torch.cat(biases) if biases else None
        return cls(weight, bias, keeps_copy=first.keeps_copy)

    @property
    def quantisation(self) -> Quantisation:
        return "int8" if isinstance(self.weight, Int8Weight) else "int4"

    def rows(self, outputs: Tensor | slice) -> QuantisedLinear:
        """These outputs alone, in order."""
        bias = None if self.bias is None else self.bias[outputs]
        return QuantisedLinear(self.weight.rows(outputs), bias, keeps_copy=self.keeps_copy)

    def project(self) -> Product:
        """The layer as a function that holds nothing but what its kernels read."""
        product, bias = self.weight.product(keeps_copy=self.keeps_copy), self.bias

        def project(x: Tensor) -> Tensor:
            out: Tensor = product(x.reshape(-1, x.shape[-1]).contiguous())
            if bias is not None:
                out = out + bias
            return out.reshape(*x.shape[:-1], out.shape[-1])

        return project

    @cached_property
    def _project(self) -> Product:
        return self.project()

    def forward(self, x: Tensor) -> Tensor:
        return self._project(x)


def is_available() -> bool:
    """Whether this PyTorch has the kernels."""
    names = ("_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu")
    return all(hasattr(torch.ops.aten, name) for name in names)


def quantise(model: Any, quantisation: Quantisation) -> None:
    """Put quantised weights in the place of a transformers model's linear layers.

    The embedding keeps its weight; an unembedding that was tied to it gets its own, of codes.
    """
    linears = [m for m in model.modules() if type(m) is nn.Linear]
    keeps_copy = 2 * sum(linear.weight.numel() for linear in linears) <= KEPT_BYTES
    kind = KINDS[quantisation]

    def replaced(module: nn.Module) -> None:
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                linear = QuantisedLinear(kind.of(child.weight), child.bias, keeps_copy=keeps_copy)
                setattr(module, name, linear)
            else:
                replaced(child)

    replaced(model)


def _nonzero(scales: Tensor) -> Tensor:
    """A row of zeros has codes of zero, by any scale."""
    return torch.where(scales > 0, scales, 1.0)


def _grouped(x: Tensor) -> Tensor:
    """(out, in) to (out, groups, GROUP), filled up with each row's last value."""
    missing = -x.shape[1] % GROUP
    filled = torch.cat([x, x[:, -1:].expand(-1, missing)], dim=1) if missing else x
    return filled.view(len(x), -1, GROUP)


def _unkept(codes: Tensor) -> Product:
    """A plain product by codes that become bfloat16 in every pass, block by block."""
    blocks = torch.split(codes, _BLOCK)
    return lambda x: torch.cat([F.linear(x, block.to(x.dtype)) for block in blocks], dim=-1)
