"""`python -m eagle_core.bench`: both lanes over a question set, as a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from eagle_core.bench.questions import load_questions, spread
from eagle_core.bench.report import report
from eagle_core.bench.run import Row, run_questions
from eagle_core.cli import add_model_flags, add_run_flags, load_workbench, run_entry, run_options
from eagle_core.errors import OptionError


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core.bench",
        description="Answer every question plainly and with EAGLE; print τ, speed and equality.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("questions", type=Path, help="JSON lines with `turns`, as MT-bench has")
    parser.add_argument("--count", type=int, default=None, help="so many, spread over the set")
    parser.add_argument("--rows", type=Path, default=None, help="keep rows here; resumes from it")
    add_run_flags(parser)
    add_model_flags(parser)
    parser.set_defaults(run=run_bench)
    return parser


def run_bench(options: argparse.Namespace) -> None:
    """Several trees may be given, separated by commas."""
    each = [run_options(options, tree=tree) for tree in options.tree.split(",")]
    if options.count is not None and options.count < 1:
        raise OptionError(f"--count {options.count}", expected="at least 1")
    questions = load_questions(options.questions)
    questions = spread(questions, options.count or len(questions))
    bench = load_workbench(options)
    rows: list[Row] = []
    try:
        runs = run_questions(bench, questions, each, rows_file=options.rows)
        rows.extend(tqdm(runs, total=len(questions) * len(each), unit="answer pair"))
    finally:
        if rows:
            print(report(rows))
    print(f"{bench.environment.device}, {bench.environment.dtype}")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
