"""Several processes, one run: each takes its share of every batch, and gradients are summed.

    accelerate launch --num_processes 2 -m eagle_core.training train …

All processes hold the same weights and take the same optimiser step, so one of them speaks for all:
it logs, validates and saves. Knows ranks and tensors. Knows nothing of heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import PartialState  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from torch import Tensor, distributed


@dataclass(frozen=True)
class Processes:
    """This process among those of its run; alone by default."""

    rank: int = 0
    size: int = 1
    device: str | None = None  # where this one works; None: wherever a single process would

    @classmethod
    def joined(cls, *, device: str | None) -> Processes:
        """As the launcher's environment says, alone without one; meets the others on the way."""
        state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
        if state.num_processes == 1:
            return cls(device=device)
        return cls(state.process_index, state.num_processes, str(state.device))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, conversations: Sequence[int], *, lengths: NDArray[np.integer]) -> list[int]:
        """This process' part of a batch: the longest go first, each to whoever has least to do."""
        loads = [0] * self.size
        mine = []
        for conversation in sorted(conversations, key=lambda number: -lengths[number]):
            least = loads.index(min(loads))
            loads[least] += int(lengths[conversation])
            if least == self.rank:
                mine.append(conversation)
        return mine

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes its sum over all processes, in one exchange."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
