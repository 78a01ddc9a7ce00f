"""`python -m eagle_core.bench.replay`: what a head would reach at temperature 0, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from eagle_core.bench.questions import load_questions, read_temperatures, spread
from eagle_core.bench.replay.answers import AnswerStore
from eagle_core.bench.replay.figures import report, to_json
from eagle_core.bench.replay.running import Replayed, answers_to, joined, replay_answer
from eagle_core.cli import add_model_flags, load_workbench, run_entry
from eagle_core.errors import OptionError
from eagle_core.files import write_wanted
from eagle_core.options import RunOptions
from eagle_core.plans import OF_THIS_MACHINE
from eagle_core.progress import progress_on_stderr

if TYPE_CHECKING:
    from eagle_core.bench.questions import Question
    from eagle_core.workbench import Workbench


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core.bench.replay",
        description="Answer every question plainly and keep answers and features; then replay "
        "the head over them, without the target's passes (above T = 0: as the rule one_hot has "
        "it). Print τ, acceptance and n-alpha. Given again, it goes on where it was; a second "
        "head takes the answers as they are.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "questions", type=Path, nargs="+", help="JSON lines with `turns`, as MT-bench has"
    )
    parser.add_argument("--count", type=int, default=None, help="so many, spread over each set")
    parser.add_argument("--answers", type=Path, default=Path("runs/answers"), help="kept here")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="length of the answers")
    parser.add_argument("--temperatures", default="0", help="of the answers, by commas")
    parser.add_argument("--tree", default="chain:5,tree:25", help="several with commas")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="figures go here")
    add_model_flags(parser)
    parser.set_defaults(run=run_replay)
    return parser


def run_replay(options: argparse.Namespace) -> None:
    """Ctrl-C, or whatever else ends it early, still reports the answers replayed so far."""
    plans, runs = wanted_plans(options), wanted_runs(options)
    sets = wanted_sets(options)
    bench = load_workbench(options, measures=False)
    done: dict[tuple[str, float], list[Replayed]] = {}
    try:
        for run in runs:
            for name, one in replayed(bench, sets, plans, run, folder=options.answers):
                done.setdefault((name, run.temperature), []).append(one)
    finally:
        found = [
            joined(bench, each, questions=name, temperature=temperature)
            for (name, temperature), each in done.items()
        ]
        if found:
            print(report(found))
    write_wanted(options.json, json.dumps(to_json(found), indent=2) + "\n", flag="--json FILE")


def wanted_plans(options: argparse.Namespace) -> tuple[str, ...]:
    """Refuses wrong flags before anything is loaded."""
    plans = tuple(dict.fromkeys(options.tree.split(",")))
    for plan in plans:
        if plan in OF_THIS_MACHINE:
            raise OptionError(f"--tree {plan}", expected="trees that are the same on any machine")
        RunOptions(tree=plan)
    return plans


def wanted_runs(options: argparse.Namespace) -> list[RunOptions]:
    """The answers' options, a temperature each."""
    length = options.max_new_tokens
    temperatures = read_temperatures(options.temperatures)
    return [RunOptions(max_new_tokens=length, temperature=each) for each in temperatures]


def wanted_sets(options: argparse.Namespace) -> dict[str, tuple[Question, ...]]:
    """Named after their files."""
    if options.count is not None and options.count < 1:
        raise OptionError(f"--count {options.count}", expected="at least 1")
    sets: dict[str, tuple[Question, ...]] = {}
    for path in options.questions:
        if path.stem in sets:
            raise OptionError(f"two sets of questions called {path.stem}", expected="names unlike")
        questions = load_questions(path)
        sets[path.stem] = spread(questions, options.count or len(questions))
    return sets


def replayed(
    bench: Workbench,
    sets: Mapping[str, Sequence[Question]],
    plans: Sequence[str],
    run: RunOptions,
    *,
    folder: Path,
) -> Iterator[tuple[str, Replayed]]:
    """Each set's name with each of its answers, replayed; the target runs for those not kept."""
    store = AnswerStore(folder / f"t{run.temperature:g}", target=bench.target, options=run)
    prompts = [(name, bench.encode(each.prompt)) for name in sets for each in sets[name]]
    writing = answers_to(bench, [prompt for _, prompt in prompts], store, options=run)
    named = f"answers at T = {run.temperature:g}"
    answers = list(tqdm(writing, total=len(prompts), desc=named, unit="answer"))
    with progress_on_stderr() as progress:
        features = store.features(bench.head.taps, told=partial(progress, "features"))
    told = tqdm(zip(prompts, answers, strict=True), total=len(prompts), desc="replay")
    for (name, _), answer in told:
        yield (
            name,
            replay_answer(
                bench,
                answer,
                features.along(answer),
                plans=plans,
                max_new_tokens=run.max_new_tokens,
            ),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
