"""Train a head from the command line.

    python -m eagle_core.training features --corpus FILE     the target's features, computed once
    python -m eagle_core.training train    --corpus FILE     a head, from these features
    python -m eagle_core.training export   --corpus FILE     the best head so far, with its card
    python -m eagle_core.training card     HEAD              its card again, from what is beside it
    python -m eagle_core.training recipe   NAME              all of it, from the text to the head

What is left out of `--feature-weight`, `--noise`, `--self-fed-steps` and `--step-decay` is as the
method's paper has it. Every command goes on where it was interrupted when it is given again.
Several processes train as one, each with its share of every batch:

    accelerate launch --multi_gpu --num_processes 2 -m eagle_core.training train --corpus FILE
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from eagle_core.drafters.head import INPUTS
from eagle_core.training.commands import compute, export, train
from eagle_core.training.entry import run
from eagle_core.training.export import write_card
from eagle_core.training.making import make
from eagle_core.training.methods import METHODS
from eagle_core.training.objectives import NOISES, OBJECTIVES
from eagle_core.training.recipes import RECIPES
from eagle_core.training.settings import OPTIMIZERS, PRECISIONS

FEATURES = Path("runs/features")
ABOUT_CORPUS = (
    "Conversations that the target had with itself. User turns were sampled by the target, or are "
    "questions of the GSM8K training set (MIT) and code instructions of GPTeacher (MIT); answers "
    "are the target's own, greedy and at temperatures 0.7 and 1.0."
)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="python -m eagle_core.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(required=True, metavar="command")
    shared = argparse.ArgumentParser(add_help=False)
    _shared_flags(shared)
    features = commands.add_parser(
        "features", parents=[shared], help="compute the target's features over a corpus"
    )
    _feature_flags(features)
    features.set_defaults(command=compute)
    training = commands.add_parser("train", parents=[shared], help="train a head on the features")
    _run_flags(training)
    _training_flags(training)
    training.set_defaults(command=train)
    exporting = commands.add_parser(
        "export", parents=[shared], help="write the best head of a run, with its card"
    )
    _run_flags(exporting)
    exporting.set_defaults(command=export)
    telling = commands.add_parser(
        "card", help="write a head's card again, with its replay.json if there is one"
    )
    telling.add_argument("head", type=Path, help="its folder")
    telling.set_defaults(command=lambda options: write_card(options.head), threads=None)
    making = commands.add_parser("recipe", help="all of it, from the text to the head")
    _recipe_flags(making)
    making.set_defaults(command=partial(make, parse=parsed))
    return whole


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    options = parser().parse_args(arguments)
    options.words = list(arguments)  # what a run remembers as its command
    return options


def _recipe_flags(flags: argparse.ArgumentParser) -> None:
    add = flags.add_argument
    add("name", choices=RECIPES, help="of the head")
    add("--out", type=Path, help="folder of everything; left out: runs/NAME or runs/tiny-NAME")
    add("--corpus", type=Path, help="left out: the shipped one, or one that the target writes")
    add("--tiny", action="store_true", help="a few tokens and steps, to see that all of it works")
    _place_flags(flags)


def _shared_flags(flags: argparse.ArgumentParser) -> None:
    add = flags.add_argument
    add("--corpus", type=Path, required=True, help="an .npz with tokens, answer, lengths")
    add("--max-tokens", type=int, help="use only the first so many tokens of the corpus")
    add(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        help="of the target's passes; left out: bfloat16 on CUDA, float32 elsewhere",
    )
    _place_flags(flags)


def _place_flags(flags: argparse.ArgumentParser) -> None:
    add = flags.add_argument
    add("--target", help="a hub id or a local folder; left out: the default target")
    add("--cache", type=Path, help="folder that keeps the default target")
    add("--device", help="cpu, cuda, …; left out: CUDA if there is one")
    add("--threads", type=int, help="CPU threads; left out: all")


def _feature_flags(flags: argparse.ArgumentParser) -> None:
    add = flags.add_argument
    add("--features", type=Path, default=FEATURES, help="folder of the features")
    add("--method", choices=METHODS, default="eagle", help="keep the states that it needs")
    add("--taps", type=int, nargs="+", help="keep these states instead")
    add("--workers", type=int, default=1, help="conversations read at the same time")


def _run_flags(flags: argparse.ArgumentParser) -> None:
    add = flags.add_argument
    add("--features", type=Path, nargs="+", default=[FEATURES], help="folders of the features")
    add("--run", type=Path, default=Path("runs/eagle"), help="folder of checkpoint and curve")
    add("--head", type=Path, help="folder to export the head to")
    add("--draft-vocabulary", type=int, default=8192, help="tokens the head may draft")
    add("--held-out", type=int, help="validate on only so many held-out conversations")
    add("--about-corpus", default=ABOUT_CORPUS, help="the card's words on where the text is from")
    add("--machine", default=f"{os.cpu_count()} CPU cores", help="the card's word for it")
    add("--recipe", choices=RECIPES, help="the card's word on which recipe this run ends")


def _training_flags(flags: argparse.ArgumentParser) -> None:
    budget = flags.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=int, help="length of the run; repeatable to the bit")
    budget.add_argument("--minutes", type=float, help="length of the run; 60 without --steps")
    add = flags.add_argument
    add("--start-from", type=Path, help="a head folder whose weights to begin with")
    add("--method", choices=METHODS, default="eagle", help="the kind of head")
    add("--inputs", choices=INPUTS, default="feature+token", help="what an EAGLE-1 head reads")
    add("--taps", type=int, nargs="+", help="states that an EAGLE-3 head reads, not the usual")
    add("--batch-tokens", type=int, default=1024)
    add("--precision", choices=PRECISIONS, default="float32", help="of the matrix products")
    add("--optimizer", choices=OPTIMIZERS, default="adamw")
    add("--learning-rate", type=float, default=1.5e-3)
    add("--warmup-share", type=float, default=0.03, help="of the run")
    add("--weight-decay", type=float, default=0.01)
    add("--clip-norm", type=float, default=0.5)
    add("--feature-weight", type=float, help="of the smooth-L1 part")
    add("--token-weight", type=float, default=1.0, help="of the divergence; the paper: 0.1")
    add(
        "--objective",
        choices=OBJECTIVES,
        default="forward_kl",
        help="the divergence from the target's law; `tokens`: the text alone",
    )
    add(
        "--on-policy-share",
        type=float,
        default=0.0,
        help="of the steps whose texts a small draft model writes itself",
    )
    add("--layers", type=int, default=2, help="of a small draft model")
    add("--noise", choices=NOISES, help="on input features")
    add(
        "--self-fed-steps",
        type=int,
        help="train on this many own estimates too; Medusa: on as many further tokens",
    )
    add("--step-decay", type=float, help="weight of each further self-fed step")
    add("--kv-heads", type=int, help="key/value heads; left out: one for three query heads")
    add("--intermediate-size", type=int, help="of the gated layer; left out: 8/3 of the width")
    add("--rope-theta", type=float, default=10000.0)
    add("--max-positions", type=int, default=2048, help="the longest text the head shall follow")
    add("--seed", type=int, default=0)
    add("--log-every", type=int, default=20, help="steps")
    add("--validate-every", type=int, default=400, help="steps")
    add("--checkpoint-every", type=int, default=200, help="steps")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    return run(options.command, options)


if __name__ == "__main__":
    sys.exit(main())
