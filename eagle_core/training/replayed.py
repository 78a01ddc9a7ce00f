"""A card's section on question sets, from the figures that `bench.replay` wrote.

Knows that file's keys and English. Knows nothing of weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
TAU = "\N{GREEK SMALL LETTER TAU}"

Figure = Sequence[float]  # value, low, high
Replays = dict[str, Any]


def over_questions(replays: Replays) -> str:
    """Two tables: acceptance length by tree, agreement by level; a row per set and temperature."""
    rows = replays["replays"]
    plans = [*dict.fromkeys(plan for row in rows for plan in row["plans"])]
    num_levels = max(len(row["alphas"]) for row in rows)
    lengths = table(
        ("questions", "T", "answers", *(f"{TAU}, `{plan}`" for plan in plans)),
        ((*_named(row), *(_said(row["plans"][plan]["tau"], 2) for plan in plans)) for row in rows),
    )
    agreement = table(
        ("questions", "T", "answers", *(f"{level}-{ALPHA}" for level in range(num_levels))),
        ((*_named(row), *(_said(figure, 3) for figure in row["alphas"])) for row in rows),
    )
    return f"""
## Over question sets

First turns; answers written by the target in {replays["dtype"]} and replayed \
(`python -m eagle_core.bench.replay`):

{lengths}

{agreement}

{TAU} = (tokens - 1) ÷ target passes, over all answers; in brackets the middle 95 % of resampled
questions. At T = 0 each of these steps is the engine's own; above, the rule is `one_hot`.
n-{ALPHA} is counted from every place of every answer, against the answer's own tokens.
"""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown; short rows are filled up."""
    width = len(header)
    lines = [header, ["---"] * width, *([*row, *[""] * (width - len(row))] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _named(row: Replays) -> tuple[str, str, str]:
    return row["questions"], f"{row['temperature']:g}", str(row["num_questions"])


def _said(figure: Figure, digits: int) -> str:
    value, low, high = (f"{number:.{digits}f}" for number in figure)
    return f"{value} [{low}, {high}]"
