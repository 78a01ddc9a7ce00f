"""The fast path in passes of fixed shape, which a CUDA graph can be captured over and replayed.

    a tree of 5  ─▶ filled up to 8 rows ─▶ copied into buffers ─▶ replay ─▶ first 5 rows

A pass reads its tokens, positions, places and bias from buffers that stay where they are, attends
over all of the cache's capacity, and brings no number back to the host. Without a graph the same
code runs as it stands: what a CPU computes here is what a GPU would capture. A cache and its
graphs are a seat; a run takes a free one and leaves it to the next.

Knows rows, buffers and capture. Knows nothing of drafters, acceptance or text.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from eagle_core.targets.base import Taps, TargetRead
from eagle_core.targets.hf import HfRun
from eagle_core.targets.llama import LlamaRun, LlamaTarget, Rows, turns
from eagle_core.targets.masks import tree_bias
from eagle_core.tree import DraftTree

if TYPE_CHECKING:
    from torch import Tensor

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Rows of a pass: a tree is filled up to the next of them, and one beyond the last runs eagerly."""

WARM_UPS = 3  # before a capture, so that libraries have allocated what they need

Read: TypeAlias = tuple["Tensor", "Tensor"]  # states (N, D) and tapped features (N, K·D)
Compute: TypeAlias = Callable[[], Read]
Capture: TypeAlias = Callable[[Compute], Compute]
"""Makes of a computation over fixed buffers one that can be repeated at once."""


def as_it_stands(compute: Compute) -> Compute:
    """No capture: the computation itself."""
    return compute


def captured(compute: Compute) -> Compute:
    """A CUDA graph of the computation; every replay writes into the same two tensors."""
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            compute()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        read = compute()

    def replay() -> Read:
        graph.replay()
        return read

    return replay


class GraphTarget(LlamaTarget):
    """A `LlamaTarget` whose trees are scored in passes of fixed shape; see the module."""

    def __init__(self, model: Any, *, name: str, end_tokens: frozenset[int] = frozenset()) -> None:
        super().__init__(model, name=name, end_tokens=end_tokens)
        on_cuda = self.spec.device.type == "cuda"
        self.capture: Capture = captured if on_cuda else as_it_stands
        self._free: list[Seat] = []

    def open(self) -> HfRun:
        seat = self._free.pop() if self._free else Seat(self)
        seat.clear()
        run = GraphRun(self, seat)
        weakref.finalize(run, self._free.append, seat)
        return run


class GraphRun(LlamaRun):
    """One lane over a `GraphTarget`; prompts are read as in `LlamaRun`."""

    def __init__(self, target: GraphTarget, seat: Seat) -> None:
        super().__init__(target)
        self._rows = self._seat = seat

    @torch.no_grad()
    def score_tree(self, tree: DraftTree, *, taps: Taps = ()) -> TargetRead:
        num_rows = next((size for size in SIZES if size >= len(tree)), None)
        if num_rows is None:
            return super().score_tree(tree, taps=taps)
        deepest = self.num_cached + max(tree.depths)
        assert deepest < self._spec.max_positions, f"a tree down to position {deepest}"
        states, features = self._seat.pass_of(num_rows, taps)(tree)
        self._num_pending = len(tree)
        logits = self._unembed(states[: len(tree)])
        return TargetRead(logits=logits, features=features[: len(tree)].clone())


class Seat(Rows):
    """A cache with its captured passes, which are of its capacity and are dropped as it grows.

    places: (N,) where the pass under way writes its rows; None for the rows after the committed.
    """

    places: Tensor | None = None

    def __init__(self, target: GraphTarget) -> None:
        super().__init__(target)
        self._target = target
        self._passes: dict[tuple[int, Taps], FixedPass] = {}

    @property
    def capacity(self) -> int:
        return int(self._buffer.shape[3])

    def clear(self) -> None:
        """Forget the text; what earlier runs wrote is hidden until it is written over."""
        self._num_rows = 0

    def make_room(self, num_rows: int) -> None:
        capacity = self.capacity
        super().make_room(num_rows)
        if self.capacity != capacity:
            self._passes.clear()

    def pass_of(self, num_rows: int, taps: Taps) -> FixedPass:
        """Captured when it is first asked for."""
        self.make_room(num_rows)
        known = self._passes.get((num_rows, taps))
        if known is None:
            known = FixedPass(self._target, self, num_rows=num_rows, taps=taps)
            self._passes[num_rows, taps] = known
        return known

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """At `places` where they are set, giving all rows up to the capacity."""
        if self.places is None:
            return super().write(layer, keys, values)
        both = self._buffer[layer]
        both[0].index_copy_(1, self.places, keys.transpose(0, 1))
        both[1].index_copy_(1, self.places, values.transpose(0, 1))
        return both[0], both[1]


class FixedPass:
    """A pass of N rows over a seat's whole capacity C, its inputs in buffers that stay."""

    def __init__(self, target: GraphTarget, seat: Seat, *, num_rows: int, taps: Taps) -> None:
        spec, capacity = target.spec, seat.capacity
        self._target, self._seat, self._taps, self._num_rows = target, seat, taps, num_rows
        self._embed = target.embedding()
        self._table = target.angles.reaching(capacity + num_rows)
        numbers = torch.zeros(3, num_rows, dtype=torch.int64, device=spec.device)
        self._numbers = numbers  # tokens, positions, places
        self._bias = torch.zeros(num_rows, capacity, dtype=spec.dtype, device=spec.device)
        self._numbers[2] = torch.arange(num_rows, device=spec.device) + len(seat)
        self._replay = target.capture(self.compute)

    def __call__(self, tree: DraftTree) -> Read:
        """States and features of all N rows, in tensors that the next pass writes over.

        What is missing of N rows are more children of the root, which nothing else sees.
        """
        missing, start = self._num_rows - len(tree), len(self._seat)
        rows = range(start, start + self._num_rows)
        positions = [start + depth for depth in (*tree.depths, *[0] * missing)]
        numbers = torch.tensor([[*tree.tokens, *[0] * missing], positions, [*rows]])
        parents = (*tree.parents, *[0] * missing)
        _send(numbers, self._numbers)
        _send(self._whole(tree_bias(parents, start, dtype=self._bias.dtype)), self._bias)
        return self._replay()

    def compute(self) -> Read:
        tokens, positions, places = self._numbers
        self._seat.places = places
        try:
            return self._target.read(
                self._embed(tokens),
                turn=turns(self._table, positions),
                rows=self._seat,
                bias=self._bias.repeat(self._target.group_size, 1),
                taps=self._taps,
            )
        finally:
            self._seat.places = None

    def _whole(self, bias: Tensor) -> Tensor:
        """(N, L+N) to (N, C): places beyond are hidden."""
        whole = bias.new_full((self._num_rows, self._seat.capacity), torch.finfo(bias.dtype).min)
        whole[:, : bias.shape[1]] = bias
        return whole


def _send(numbers: Tensor, buffer: Tensor) -> None:
    """To a GPU from pinned memory, so that the host need not wait for it."""
    source = numbers.pin_memory() if buffer.device.type == "cuda" else numbers
    buffer.copy_(source, non_blocking=True)
