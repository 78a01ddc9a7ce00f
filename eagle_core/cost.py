"""What passes take on this machine: curves measured once, kept for later starts.

    rows     1   2   4   8   16   32   64   128        a pass of the target, per context length
    ms      38  38  40  42   51   78  150   290        and of the head, per level of a draft

How many rows a pass should have follows from these curves and from how often drafts are kept.
Knows numbers and the file they lie in. Knows nothing of models; `measuring` asks those.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from eagle_core.files import replacing

Kept = tuple[int, int]
"""How often a child was there to be kept, and how often it was the one kept."""


@dataclass(frozen=True)
class Curve:
    """Milliseconds of a pass over so many rows: straight lines between the measured points."""

    rows: tuple[int, ...]
    ms: tuple[float, ...]

    def __post_init__(self) -> None:
        fits = len(self.rows) == len(self.ms) > 0
        if not (fits and all(one < other for one, other in pairwise((0, *self.rows)))):
            raise ValueError(f"a curve over rows {self.rows} with {len(self.ms)} times")
        if not all(ms > 0 for ms in self.ms):
            raise ValueError(f"a curve with times {self.ms}")

    @classmethod
    def measured(cls, ms: Mapping[int, float]) -> Curve:
        """Never falling: noise only adds time, so more rows in less time show what fewer take."""
        rows = sorted(ms)
        least = [*accumulate((ms[row] for row in reversed(rows)), min)]
        return cls(tuple(rows), tuple(reversed(least)))

    def __call__(self, num_rows: int) -> float:
        """Beyond the last point the line goes on as between the last two."""
        rows, ms = self.rows, self.ms
        if num_rows <= rows[0] or len(rows) == 1:
            return ms[0]
        right = min(bisect_left(rows, num_rows), len(rows) - 1)
        share = (num_rows - rows[right - 1]) / (rows[right] - rows[right - 1])
        return ms[right - 1] + share * (ms[right] - ms[right - 1])

    def towards(self, other: Curve, share: float) -> Curve:
        """From this curve (share 0) to a dearer one (share 1) and beyond."""
        more = (max(other(rows) - ms, 0.0) for rows, ms in zip(self.rows, self.ms, strict=True))
        both = zip(self.ms, more, strict=True)
        return Curve(self.rows, tuple(ms + share * further for ms, further in both))


@dataclass(frozen=True)
class Prices:
    """What one step takes with so much text in the cache, in milliseconds.

    verify: rows of the tree, root included. level: rows that the head reads for a further level;
    first_ms: for the first one, which also reads what was committed last. other_ms: the walk, the
    caches, the head's refresh.
    """

    verify: Curve
    level: Curve
    first_ms: float
    other_ms: float

    @property
    def plain_ms(self) -> float:
        return self.verify(1) + self.other_ms

    def step_ms(self, num_rows: int, draft_rows: Sequence[int]) -> float:
        """Of a step whose draft read `draft_rows`, level by level."""
        drafting = self.first_ms + sum(map(self.level, draft_rows[1:])) if draft_rows else 0.0
        return drafting + self.verify(num_rows) + self.other_ms


@dataclass(frozen=True)
class Profile:
    """The prices at a shorter and a longer text, and what was kept of drafts while measuring.

    kept_by_rank: per depth from 1 on, per child rank, greedily over our measuring prompts.
    """

    contexts: tuple[int, int]
    verify: tuple[Curve, Curve]
    level: Curve
    first_ms: float
    other_ms: float
    kept_by_rank: tuple[tuple[Kept, ...], ...]

    def __post_init__(self) -> None:
        few, many = self.contexts
        counts = [count for ranks in self.kept_by_rank for count in ranks]
        if not (few < many and self.first_ms > 0 and self.other_ms >= 0):
            raise ValueError(f"a profile of {self.contexts}, {self.first_ms}, {self.other_ms}")
        if not counts or not all(0 <= kept <= reached for reached, kept in counts):
            raise ValueError(f"a profile of drafts kept {self.kept_by_rank}")

    def prices(self, num_cached: int) -> Prices:
        """Along a straight line from the shorter text through the longer one."""
        (short, long), (few, many) = self.verify, self.contexts
        share = max((num_cached - few) / (many - few), 0.0)
        return Prices(short.towards(long, share), self.level, self.first_ms, self.other_ms)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Profile:
        """Raises ValueError, KeyError or TypeError for what is no profile."""
        short, long = (_curve(curve) for curve in data["verify"])
        few, many = (int(context) for context in data["contexts"])
        return cls(
            contexts=(few, many),
            verify=(short, long),
            level=_curve(data["level"]),
            first_ms=float(data["first_ms"]),
            other_ms=float(data["other_ms"]),
            kept_by_rank=tuple(
                tuple((int(reached), int(kept)) for reached, kept in ranks)
                for ranks in data["kept_by_rank"]
            ),
        )

    @property
    def digest(self) -> str:
        return _digest(self.to_json())


class ProfileStore:
    """One JSON file of profiles, each under the conditions it was measured in."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find(self, conditions: Mapping[str, str]) -> Profile | None:
        """None where it was not measured yet, or cannot be read: measuring again mends it."""
        entry = self._read().get(_digest(conditions))
        try:
            return Profile.from_json(entry["profile"]) if isinstance(entry, dict) else None
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    def keep(self, profile: Profile, conditions: Mapping[str, str]) -> None:
        """Replace the file as a whole. Without room for it the next start measures again."""
        entry = {"conditions": dict(conditions), "profile": profile.to_json()}
        with contextlib.suppress(OSError), replacing(self._file) as staged:
            staged.write_text(json.dumps({**self._read(), _digest(conditions): entry}, indent=2))

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


UNMEASURED = Profile(
    contexts=(128, 1024),
    verify=(
        Curve((1, 8, 16, 32, 128), (38.0, 42.0, 51.0, 78.0, 290.0)),
        Curve((1, 8, 16, 32, 128), (42.0, 47.0, 58.0, 90.0, 340.0)),
    ),
    level=Curve((1, 8, 16), (4.0, 5.0, 6.5)),
    first_ms=4.5,
    other_ms=2.0,
    kept_by_rank=(((100, 44), (100, 13), (100, 6), (100, 4)),),
)
"""Two CPU cores and the default target in float32: what stands in where nothing was measured."""


def _curve(data: Mapping[str, Any]) -> Curve:
    return Curve(tuple(map(int, data["rows"])), tuple(map(float, data["ms"])))


def _digest(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(data), sort_keys=True).encode()).hexdigest()[:16]
