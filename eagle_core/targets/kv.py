"""Key/value rows of one run, and every touch of transformers' cache API.

    rows    0 … L-1 committed │ L … L+N-1 provisional, one per tree node │ free, up to capacity

Rows are written in place into buffers that double when full; keeping a path moves a few of them.
Knows rows. Knows nothing of trees, masks or tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache

if TYPE_CHECKING:
    from torch import Tensor

MIN_CAPACITY = 256


class KeyValueRows:
    """The cache of one run; `as_arguments` hands it to a model's forward."""

    def __init__(self, num_layers: int) -> None:
        self._layers = [RowsLayer() for _ in range(num_layers)]
        layers: Any = list(self._layers)
        self._cache = Cache(layers=layers)
        self._num_rows = 0

    def __len__(self) -> int:
        """L, committed rows; what a pass wrote after them is provisional."""
        return self._num_rows

    def as_arguments(self, model: Any) -> dict[str, Any]:
        """Keyword arguments for `model.forward`."""
        return {_cache_keyword(model.__class__): self._cache, "use_cache": True}

    def rewind(self) -> None:
        """Forget the provisional rows."""
        for layer in self._layers:
            layer.num_rows = self._num_rows

    def keep(self, path: Sequence[int]) -> None:
        """Commit these provisional rows, counted from the first one, in order; forget the rest."""
        num_in_place = next((i for i, row in enumerate(path) if row != i), len(path))
        moved = torch.tensor(path[num_in_place:], dtype=torch.int64) + self._num_rows
        for layer in self._layers:
            layer.move(moved, to=self._num_rows + num_in_place)
        self._num_rows += len(path)
        self.rewind()


class RowsLayer:
    """What transformers' `Cache` asks of a layer, over buffers (1, heads, capacity, head width).

    It inherits nothing of theirs: the base class's abstract methods were renamed within 5.x, and
    a model only calls what stands here.
    """

    is_sliding = False
    is_compileable = False

    def __init__(self) -> None:
        self.num_rows = 0
        self.keys = self.values = torch.empty(1, 0, 0, 0)

    @property
    def is_initialized(self) -> bool:
        return self.keys.shape[-2] > 0

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append rows, (1, heads, R, width); returns all rows so far, as views."""
        start, self.num_rows = self.num_rows, self.num_rows + keys.shape[-2]
        if self.num_rows > self.keys.shape[-2]:
            capacity = max(2 * self.keys.shape[-2], self.num_rows, MIN_CAPACITY)
            self.keys = _with_room(keys, capacity, start=self.keys[:, :, :start])
            self.values = _with_room(values, capacity, start=self.values[:, :, :start])
        self.keys[:, :, start : self.num_rows] = keys
        self.values[:, :, start : self.num_rows] = values
        return self.keys[:, :, : self.num_rows], self.values[:, :, : self.num_rows]

    def move(self, rows: Tensor, *, to: int) -> None:
        """Copy `rows` so that they follow each other from row `to` on."""
        if len(rows) == 0:
            return
        here = rows.to(self.keys.device)  # layers may live on several devices
        self.keys[:, :, to : to + len(rows)] = self.keys[:, :, here]
        self.values[:, :, to : to + len(rows)] = self.values[:, :, here]

    def get_seq_length(self, *_: Any) -> int:
        return self.num_rows

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.num_rows + query_length, 0

    def get_max_length(self) -> int:
        return -1  # transformers' word for "no limit"

    get_max_cache_shape = get_max_length  # its name before 5.24


@cache
def _cache_keyword(model_class: Any) -> str:
    """`past_key_values` became `cache` in transformers 5.24."""
    names = inspect.signature(model_class.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def _with_room(rows: Tensor, capacity: int, *, start: Tensor) -> Tensor:
    batch, num_heads, _, width = rows.shape
    buffer = rows.new_empty(batch, num_heads, capacity, width)
    if start.shape[-2] > 0:
        buffer[:, :, : start.shape[-2]] = start
    return buffer
