"""`python -m eagle_core.bench.replay`: what a head would reach at temperature 0, as a table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from eagle_core.bench.questions import load_questions, spread
from eagle_core.bench.replay.answers import AnswerStore
from eagle_core.bench.replay.figures import Replay, report
from eagle_core.bench.replay.running import Replayed, answers_to, joined, replay_answer
from eagle_core.cli import add_model_flags, load_workbench, run_entry
from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.plans import OF_THIS_MACHINE
from eagle_core.progress import progress_on_stderr

if TYPE_CHECKING:
    from eagle_core.bench.questions import Question
    from eagle_core.bench.replay.answers import Answer, Features
    from eagle_core.workbench import Workbench


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core.bench.replay",
        description="Answer every question greedily and keep answers and features; then replay "
        "the head over them, without the target's passes. Print τ, acceptance and n-alpha. Given "
        "again, it goes on where it was; a second head takes the answers as they are.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("questions", type=Path, help="JSON lines with `turns`, as MT-bench has")
    parser.add_argument("--count", type=int, default=None, help="so many, spread over the set")
    parser.add_argument("--answers", type=Path, default=Path("runs/answers"), help="kept here")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="length of the answers")
    parser.add_argument("--tree", default="chain:5,tree:25", help="several with commas")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="figures go here")
    add_model_flags(parser)
    parser.set_defaults(run=run_replay)
    return parser


def run_replay(options: argparse.Namespace) -> None:
    """Ctrl-C, or whatever else ends it early, still reports the answers replayed so far."""
    plans, length = wanted_plans(options), options.max_new_tokens
    questions = load_questions(options.questions)
    questions = spread(questions, options.count or len(questions))
    bench = load_workbench(options, measures=False)
    answers, features = remembered(bench, questions, options)
    done: list[Replayed] = []
    try:
        for answer in tqdm(answers, desc="replay", unit="answer"):
            rows = features.along(answer)
            done.append(replay_answer(bench, answer, rows, plans=plans, max_new_tokens=length))
    finally:
        if done:
            print(report(joined(bench, done)))
    if options.json:
        save(joined(bench, done), options.json)


def wanted_plans(options: argparse.Namespace) -> tuple[str, ...]:
    """Refuses wrong flags before anything is loaded."""
    plans = tuple(dict.fromkeys(options.tree.split(",")))
    for plan in plans:
        if plan in OF_THIS_MACHINE:
            raise OptionError(f"--tree {plan}", expected="trees that are the same on any machine")
        RunOptions(max_new_tokens=options.max_new_tokens, tree=plan)
    if options.count is not None and options.count < 1:
        raise OptionError(f"--count {options.count}", expected="at least 1")
    return plans


def remembered(
    bench: Workbench, questions: Sequence[Question], options: argparse.Namespace
) -> tuple[list[Answer], Features]:
    """The greedy answers and what lies along them; the target runs for those not kept yet."""
    length = options.max_new_tokens
    store = AnswerStore(options.answers, target=bench.target, max_new_tokens=length)
    prompts = [bench.encode(question.prompt) for question in questions]
    answering = answers_to(bench, prompts, store, max_new_tokens=length)
    answers = list(tqdm(answering, total=len(prompts), desc="greedy answers", unit="answer"))
    with progress_on_stderr() as progress:
        told = partial(progress, "features")
        return answers, store.features(bench.head.taps, told=told)


def save(replay: Replay, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(replay.to_json(), indent=2) + "\n")
    except OSError as error:
        raise OptionError(
            f"cannot write to {path} ({error.strerror})", hint="another --json FILE"
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
