"""Key/value rows of one run, and every touch of transformers' cache API.

    rows    0 … L-1 committed │ L … L+N-1 provisional, one per tree node │ free, up to capacity

Rows are written in place into buffers that double when full; keeping a path moves a few of them.
`SeatedRows` keeps several texts side by side, each with rows of its own.
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
        self._cache = _cache_of(self._layers)
        self._num_rows = 0

    def __len__(self) -> int:
        """L, committed rows; what a pass wrote after them is provisional."""
        return self._num_rows

    def as_arguments(self, model: Any) -> dict[str, Any]:
        """Keyword arguments for `model.forward`."""
        return _as_arguments(self._cache, model)

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


class SeatedRows:
    """The cache of several texts decoded together, one a seat; a seat's rows need no clearing.

         row 0  1  2  3  4 …
    seat 0   ■  ■  ■  ■  □       ■ read by the next pass, □ written by it
    seat 1   ■  □  ·  ·  ·       · older, hidden by the pass' mask
    """

    def __init__(self, num_layers: int, *, num_seats: int) -> None:
        self._layers = [SeatedLayer(num_seats) for _ in range(num_layers)]
        self._cache = _cache_of(self._layers)

    def as_arguments(self, model: Any, *, seats: slice, positions: Tensor) -> dict[str, Any]:
        """Keyword arguments for a pass that writes rows `positions`, (B, R), of these B seats."""
        num_rows = int(positions.max()) + 1
        for layer in self._layers:
            layer.seats, layer.positions, layer.num_rows = seats, positions, num_rows
        return _as_arguments(self._cache, model)


class _Layer:
    """What transformers' `Cache` asks of a layer, over buffers (B, heads, capacity, head width).

    It inherits nothing of theirs: the base class's abstract methods were renamed within 5.x, and
    a model only calls what stands here and in `update`.
    """

    is_sliding = False
    is_compileable = False

    def __init__(self, num_seats: int) -> None:
        self.num_rows = 0  # in use
        self.keys = self.values = torch.empty(num_seats, 0, 0, 0)

    @property
    def is_initialized(self) -> bool:
        return self.keys.shape[-2] > 0

    def get_seq_length(self, *_: Any) -> int:
        return self.num_rows

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.num_rows + query_length, 0

    def get_max_length(self) -> int:
        return -1  # transformers' word for "no limit"

    get_max_cache_shape = get_max_length  # its name before 5.24

    def _make_room(self, like: Tensor, *, start: int) -> None:
        """Larger buffers where `num_rows` no longer fit; the first `start` rows are taken along."""
        if self.num_rows <= self.keys.shape[-2]:
            return
        capacity = max(2 * self.keys.shape[-2], self.num_rows, MIN_CAPACITY)
        self.keys = _with_room(like, capacity, start=self.keys[:, :, :start])
        self.values = _with_room(like, capacity, start=self.values[:, :, :start])


class RowsLayer(_Layer):
    """One text's rows in one layer."""

    def __init__(self) -> None:
        super().__init__(num_seats=1)

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append rows, (1, heads, R, width); returns all rows so far, as views."""
        start, self.num_rows = self.num_rows, self.num_rows + keys.shape[-2]
        self._make_room(keys, start=start)
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


class SeatedLayer(_Layer):
    """All seats' rows in one layer; the next pass' place is set before it."""

    seats: slice
    positions: Tensor

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write rows, (B, heads, R, width), in place; returns all rows of these seats, as views."""
        self._make_room(keys, start=self.keys.shape[-2])
        mine = torch.arange(len(self.keys), device=keys.device)[self.seats, None]  # (B, 1)
        places = self.positions.to(keys.device)
        self.keys[mine, :, places] = keys.transpose(1, 2)
        self.values[mine, :, places] = values.transpose(1, 2)
        return self.keys[self.seats, :, : self.num_rows], self.values[
            self.seats, :, : self.num_rows
        ]


def _cache_of(layers: Sequence[Any]) -> Cache:
    return Cache(layers=list(layers))


def _as_arguments(cache: Cache, model: Any) -> dict[str, Any]:
    return {_cache_keyword(model.__class__): cache, "use_cache": True}


@cache
def _cache_keyword(model_class: Any) -> str:
    """`past_key_values` became `cache` in transformers 5.24."""
    names = inspect.signature(model_class.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def _with_room(like: Tensor, capacity: int, *, start: Tensor) -> Tensor:
    """Zeroed buffer (B, heads, capacity, width) that begins with the rows of `start`.

    Zeroed, since what a mask hides is still multiplied: by nothing, which turns no NaN into zero.
    """
    _, num_heads, _, width = like.shape
    buffer = like.new_zeros(len(start), num_heads, capacity, width)
    if start.shape[-2] > 0:
        buffer[:, :, : start.shape[-2]] = start
    return buffer
