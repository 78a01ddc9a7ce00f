"""A head report as a table of text, as JSON and as CSV, each with its environment and citation.

Views: pure functions of the report.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from eagle_core.citation import CITATION
from eagle_core.report import HeadReport
from eagle_core.trace import Environment

DEFINITION = (
    "accepted = places at which a drafted token was kept ÷ places at which the head had drafted; "
    "τ = Σ (tokens - 1) ÷ Σ target passes of the decode phase"
)


def report_table(report: HeadReport) -> str:
    lines = [*_heading(report), "", f"{'accepted':<28}{'of':>7}{'kept':>7}{'share':>8}"]
    lines += [f"{name:<28}{of:>7}{kept:>7}{rate:>8.1%}" for name, of, kept, rate in _rows(report)]
    lines += ["", f"most frequent of {report.num_misses} misses"]
    for miss in report.misses:
        lines.append(f"{miss.count:>5}  drafted {miss.drafted!r}, came {miss.came!r}")
        lines.append(f"       after {'  '.join(map(repr, miss.contexts))}")
    return "\n".join([*lines, "", DEFINITION, f"cite: {CITATION}", ""])


def report_json(report: HeadReport) -> str:
    shares = {"tau": report.tau, "definition": DEFINITION, "cite": CITATION}
    return json.dumps({**asdict(report), **shares}, ensure_ascii=False, indent=1) + "\n"


def report_csv(report: HeadReport) -> str:
    """One table: kind, name, what came, places, kept, share or contexts; notes begin with "#"."""
    out = io.StringIO()
    notes = [*_heading(report), DEFINITION, f"cite {CITATION}"]
    out.write("".join(f"# {' '.join(note.split())}\r\n" for note in notes))
    rows = csv.writer(out)
    rows.writerow(["kind", "name", "came", "places", "kept", "share", "contexts"])
    for count in report.by_depth:
        rows.writerow(
            ["depth", count.at, "", count.num_reached, count.num_accepted, count.rate, ""]
        )
    for each in report.by_class:
        places, kept = each.num_reached, each.num_accepted
        rows.writerow(["class", each.token_class, "", places, kept, each.rate, ""])
    for miss in report.misses:
        drafted, came, contexts = map(json.dumps, (miss.drafted, miss.came, miss.contexts))
        rows.writerow(["miss", drafted, came, miss.count, 0, 0.0, contexts])
    return out.getvalue()


FORMS: Mapping[str, Callable[[HeadReport], str]] = {
    "table": report_table,
    "json": report_json,
    "csv": report_csv,
}


def environment_line(environment: Environment) -> str:
    programs = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    return (
        f"target {environment.target}, head {environment.head}, {environment.device}, "
        f"{environment.dtype}, {environment.threads} threads"
    ) + (f", {programs}" if programs else "")


def _heading(report: HeadReport) -> list[str]:
    first = (
        f"{report.num_traces} traces, {report.num_tokens} tokens in {report.num_target_passes} "
        f"target passes, τ {report.tau:.2f}, rule {', '.join(report.rules)}"
    )
    return [first, *map(environment_line, report.environments)]


def _rows(report: HeadReport) -> Iterator[tuple[Any, ...]]:
    for count in report.by_depth:
        yield f"at depth {count.at}", count.num_reached, count.num_accepted, count.rate
    for each in report.by_class:
        yield each.token_class, each.num_reached, each.num_accepted, each.rate
