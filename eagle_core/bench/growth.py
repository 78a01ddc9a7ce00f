"""How time and memory grow: `python -m eagle_core.bench.growth --html growth.html`.

    time per token    against the length of the text, plainly and with the best fixed tree
    time of a pass    against the rows of a tree, for each length
    memory            of the process, against the length of the text

Lengths are measured from the shortest to the longest, so that the peak belongs to the longest so
far. Time per token is that of a step by its measured parts ÷ the tokens that the tree is expected
to commit, by how often drafts were kept while this machine was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types
from plotly.subplots import make_subplots  # type: ignore[import-untyped]  # ships no types

from eagle_core.bench.memory import MIB, peak_bytes
from eagle_core.cli import add_model_flags, load_workbench, run_entry
from eagle_core.cost import Curve
from eagle_core.errors import OptionError
from eagle_core.files import write_wanted
from eagle_core.optimum import best_tree
from eagle_core.progress import progress_on_stderr

if TYPE_CHECKING:
    from eagle_core.progress import Progress
    from eagle_core.workbench import Workbench

LENGTHS = (128, 512, 1024, 2048, 4096, 8192)
ROOM = 1  # positions that a tree needs after the text: its nodes stand side by side


@dataclass(frozen=True)
class Point:
    """One length of text. eagle_ms_per_token: with the best fixed tree, of `num_drafts`."""

    num_tokens: int
    verify: Curve
    plain_ms_per_token: float
    eagle_ms_per_token: float
    num_drafts: int
    peak_bytes: int


def measure_growth(bench: Workbench, lengths: Sequence[int], progress: Progress) -> Iterator[Point]:
    """A point per length that target and head can read, rising."""
    measuring = bench.measuring(progress)
    limits = [bench.target.spec.max_positions, bench.open_drafter().max_positions]
    limit = min(limit for limit in limits if limit is not None) - ROOM - 1
    reachable = sorted({min(length, limit) for length in lengths})
    for done, length in enumerate(reachable):
        progress(f"measuring after {length:,} tokens", done / len(reachable))
        curve = measuring.verify_curve(length)
        flat = replace(bench.profile, verify=(curve, curve))
        best = best_tree(flat)
        yield Point(
            num_tokens=length,
            verify=curve,
            plain_ms_per_token=flat.prices(length).plain_ms,
            eagle_ms_per_token=1 / best.rate,
            num_drafts=best.plan.num_drafts,
            peak_bytes=peak_bytes(),
        )


def growth_figure(points: Sequence[Point], *, where: str) -> go.Figure:
    titles = ("Time per token", "Time of a pass by its rows", "Peak memory of the process")
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles)
    lengths = [point.num_tokens for point in points]
    by_length = {
        "plain": [point.plain_ms_per_token for point in points],
        "EAGLE, best fixed tree": [point.eagle_ms_per_token for point in points],
    }
    for name, ms in by_length.items():
        figure.add_scatter(x=lengths, y=ms, name=name, mode="lines+markers", row=1, col=1)
    for point in points:
        name, curve = f"after {point.num_tokens:,} tokens", point.verify
        figure.add_scatter(x=curve.rows, y=curve.ms, name=name, mode="lines+markers", row=1, col=2)
    memory = [point.peak_bytes / MIB for point in points]
    figure.add_scatter(
        x=lengths, y=memory, mode="lines+markers", showlegend=False, name="memory", row=1, col=3
    )
    for column, (x, y) in enumerate(
        (("tokens of text", "ms"), ("rows", "ms"), ("tokens of text", "MiB")), start=1
    ):
        figure.update_xaxes(title_text=x, row=1, col=column)
        figure.update_yaxes(title_text=y, rangemode="tozero", row=1, col=column)
    return figure.update_layout(title=where)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core.bench.growth",
        description="Measure how time and memory grow with the text and the tree.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens, by commas")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--html", type=Path, help="write the plots here")
    add_model_flags(parser)
    parser.set_defaults(run=run_growth, tree="auto")
    return parser


def run_growth(options: argparse.Namespace) -> None:
    lengths = _lengths(options.lengths)
    bench = load_workbench(options)
    with progress_on_stderr() as progress:
        points = list(measure_growth(bench, lengths, progress))
    sys.stdout.write(table(points))
    environment = bench.environment
    where = f"{environment.target}, {environment.dtype}, {environment.device}"
    made: dict[str, Any] = {
        "environment": asdict(environment),
        "points": [asdict(point) for point in points],
    }
    write_wanted(options.json, json.dumps(made, indent=2) + "\n", flag="--json")
    if options.html is not None:
        figure = growth_figure(points, where=where)
        write_wanted(options.html, figure.to_html(include_plotlyjs=True), flag="--html")


def table(points: Sequence[Point]) -> str:
    lines = [f"{'tokens':>8}{'plain ms':>11}{'EAGLE ms':>11}{'drafts':>9}{'peak MiB':>11}"]
    lines += [
        f"{point.num_tokens:>8,}{point.plain_ms_per_token:>11.1f}{point.eagle_ms_per_token:>11.1f}"
        f"{point.num_drafts:>9}{point.peak_bytes / MIB:>11,.0f}"
        for point in points
    ]
    return "\n".join([*lines, "ms a token: of a step, its parts measured ÷ tokens it commits\n"])


def _lengths(text: str) -> list[int]:
    try:
        lengths = [int(length) for length in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 1:
        raise OptionError(f"--lengths {text!r:.40}", expected="whole numbers, by commas")
    return lengths


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
