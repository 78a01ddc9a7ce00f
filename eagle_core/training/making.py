"""Follow a recipe: from text to a head's folder, by the same commands that a person would give.

    corpus ─▶ features ─▶ run 0 ─▶ … ─▶ the last run ─▶ head

Each command goes on where it was interrupted, so the whole does. Knows the flags of the other
commands. Knows nothing of what they do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eagle_core.training.corpus import __main__ as corpus_command
from eagle_core.training.export import CARD
from eagle_core.training.recipes import RECIPES

Parse = Callable[[Sequence[str]], argparse.Namespace]
Words = tuple[str, ...]

SHIPPED_CORPUS = (
    Path(__file__).resolve().parents[2] / "assets" / "corpus" / "smollm2-135m-instruct.npz"
)
TINY_TOKENS = 2000
TINY_CORPUS = ("--longest", "64", "--rows", "8")
TINY_RUN = ("--steps", "3", "--batch-tokens", "300", "--held-out", "2", "--draft-vocabulary", "40")


def make(options: argparse.Namespace, *, parse: Parse) -> None:
    """Run what is left of the recipe; `parse` understands the trainer's own commands."""
    options.out = options.out or Path("runs") / f"{'tiny-' if options.tiny else ''}{options.name}"
    corpus = _corpus(options)
    for words in _commands(options, corpus):
        stage = parse(words)
        stage.command(stage)


def _corpus(options: argparse.Namespace) -> Path:
    """The one that is given or shipped; another target than the default writes its own."""
    if options.corpus is not None:
        given: Path = options.corpus
        return given
    if options.target is None:
        return SHIPPED_CORPUS
    out: Path = options.out / "corpus"
    tokens = str(TINY_TOKENS if options.tiny else corpus_command.DEFAULT_TOKENS)
    words = ("--out", str(out), "--tokens", tokens, *_place(options))
    written = corpus_command.parser().parse_args([*words, *(TINY_CORPUS if options.tiny else ())])
    corpus_command.write(written)
    return out


def _commands(options: argparse.Namespace, corpus: Path) -> Iterator[Words]:
    """The trainer's commands in order, without runs whose heads are there."""
    recipe = RECIPES[options.name]
    limit = ("--max-tokens", str(TINY_TOKENS)) if options.tiny else ()
    data = ("--corpus", str(corpus), "--features", str(options.out / "features"))
    shared = (*data, *_place(options))
    half = ("--dtype", "bfloat16")
    yield ("features", *shared, "--method", recipe.method, *half, *limit)
    earlier: Words = ()
    for number, flags in enumerate(recipe.runs):
        is_last = number == len(recipe.runs) - 1
        head = options.out / (options.name if is_last else f"head-{number}")
        if not (head / CARD).exists():
            folders = ("--run", str(options.out / f"run-{number}"), "--head", str(head))
            tiny = TINY_RUN if options.tiny else ()
            named = ("--recipe", options.name) if is_last else ()
            kind = ("--method", recipe.method, *named)
            yield ("train", *shared, *folders, *kind, *earlier, *flags.split(), *tiny, *limit)
        earlier = ("--start-from", str(head))


def _place(options: argparse.Namespace) -> Words:
    """Where the target comes from and works."""
    named = {"--target": options.target, "--cache": options.cache, "--device": options.device}
    named["--threads"] = options.threads
    return tuple(
        word for flag, value in named.items() if value is not None for word in (flag, str(value))
    )
