"""`python -m eagle_core.bench`: all lanes over a question set, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from eagle_core.bench.memory import MIB, peak_bytes
from eagle_core.bench.questions import load_questions, read_temperatures, spread
from eagle_core.bench.report import report, summaries
from eagle_core.bench.run import Row, run_questions
from eagle_core.cli import add_model_flags, add_run_flags, load_workbench, run_entry, run_options
from eagle_core.errors import OptionError
from eagle_core.files import write_wanted

if TYPE_CHECKING:
    from eagle_core.bench.rivals import Rival
    from eagle_core.workbench import Workbench


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core.bench",
        description="Answer every question plainly, with EAGLE, and with what else is asked for; "
        "print τ, speed and equality.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("questions", type=Path, help="JSON lines with `turns`, as MT-bench has")
    parser.add_argument("--count", type=int, default=None, help="so many, spread over the set")
    parser.add_argument("--rows", type=Path, default=None, help="keep rows here; resumes from it")
    parser.add_argument("--json", type=Path, default=None, help="write the report's figures here")
    parser.add_argument(
        "--against",
        default="",
        help="also time these, by commas: transformers, prompt-lookup, llama.cpp (T = 0 alone)",
    )
    parser.add_argument("--gguf", type=Path, help="llama.cpp's file; the default target has one")
    parser.add_argument("--temperatures", help="several, by commas, instead of --temperature")
    add_run_flags(parser)
    add_model_flags(parser)
    parser.set_defaults(run=run_bench)
    return parser


def run_bench(options: argparse.Namespace) -> None:
    """Several trees may be given, separated by commas."""
    each = [
        run_options(options, tree=tree, temperature=temperature)
        for temperature in _temperatures(options)
        for tree in options.tree.split(",")
    ]
    if options.count is not None and options.count < 1:
        raise OptionError(f"--count {options.count}", expected="at least 1")
    questions = load_questions(options.questions)
    questions = spread(questions, options.count or len(questions))
    bench = load_workbench(options)
    rivals = _rivals(options, bench)
    rows: list[Row] = []
    greedy = sum(temperature == 0 for temperature in _temperatures(options))
    total = len(questions) * (len(each) + greedy * len(rivals))
    try:
        runs = run_questions(bench, questions, each, rivals=rivals, rows_file=options.rows)
        rows.extend(tqdm(runs, total=total, unit="answer pair"))
    finally:
        if rows:
            print(report(rows))
            figures = json.dumps(_figures(bench, rows), indent=2) + "\n"
            write_wanted(options.json, figures, flag="--json")
    print(
        f"{bench.environment.device}, {bench.environment.dtype}, {bench.environment.threads} "
        f"threads; peak memory {peak_bytes() / MIB:,.0f} MiB, all lanes in one process"
    )


def _temperatures(options: argparse.Namespace) -> list[float]:
    if options.temperatures is None:
        return [options.temperature]
    return read_temperatures(options.temperatures)


def _rivals(options: argparse.Namespace, bench: Workbench) -> list[Rival]:
    if not options.against:
        return []
    families = options.against.split(",")
    if bench.target.spec.quantisation and {*families} - {"llama.cpp"}:
        raise OptionError(
            f"--against {options.against} beside {options.dtype} weights, which it has not",
            hint="--dtype bfloat16, or --against llama.cpp",
        )
    from eagle_core.bench import rivals  # takes seconds to import, and few runs need it
    from eagle_core.progress import progress_on_stderr
    from eagle_core.targets.store import resolve

    def gguf() -> Path:
        if options.gguf is not None:
            return Path(options.gguf)
        if options.target is not None:
            raise OptionError("--against llama.cpp for another target", hint="--gguf FILE")
        with progress_on_stderr() as progress:
            return rivals.default_gguf(options.cache, progress)

    return rivals.open_rivals(
        families,
        source=resolve(options.target, cache=options.cache),
        dtype=bench.target.spec.dtype,
        device=bench.target.spec.device,
        gguf=gguf,
    )


def _figures(bench: Workbench, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "environment": asdict(bench.environment),
        "profile": bench.profile.to_json(),
        "peak_bytes": peak_bytes(),
        "lanes": [summary.to_json() for summary in summaries(rows)],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
