"""Let a chat target write its own training conversations.

    python -m eagle_core.training.corpus --out FOLDER --tokens 1000000
    python -m eagle_core.training.corpus --out FOLDER --prompts chats.jsonl
    python -m eagle_core.training.corpus --out FOLDER --prompts chats.jsonl --answers fixed

Without --prompts the target samples the user's turns too. The folder is what the trainer takes as
--corpus. The same command goes on where it was interrupted, whenever and however that was; more
--tokens continue a finished corpus.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from eagle_core.errors import OptionError
from eagle_core.targets.hf import HfTarget
from eagle_core.targets.loading import load_target, load_tokenizer
from eagle_core.targets.store import resolve
from eagle_core.training.corpus.batching import Batch
from eagle_core.training.corpus.conversations import TalkFile, read_talks
from eagle_core.training.corpus.dialogue import Conversation, dialogue, recipes
from eagle_core.training.corpus.notes import Origin
from eagle_core.training.corpus.shards import SHARD_TOKENS, ShardFolder
from eagle_core.training.corpus.template import ChatTemplate, tokenizer_digest
from eagle_core.training.corpus.writing import Writer
from eagle_core.training.entry import run
from eagle_core.training.interrupts import interrupts

DEFAULT_TOKENS = 1_000_000
LONGEST = 2048


def parser() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(
        prog="python -m eagle_core.training.corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = flags.add_argument
    add("--out", type=Path, required=True, help="folder of the shards")
    add(
        "--tokens",
        type=int,
        help=f"stop at so many; left out: {DEFAULT_TOKENS:,}, or with --prompts the file's end",
    )
    add("--prompts", type=Path, help="JSONL or JSON of conversations (messages or ShareGPT)")
    add(
        "--answers",
        choices=["regenerated", "fixed"],
        default="regenerated",
        help="to the file's questions: the target's, or the file's own (nothing is decoded then)",
    )
    add("--file-share", type=float, default=1.0, help="conversations that take the file's turns")
    add("--two-turn-share", type=float, default=0.1, help="own conversations with a second turn")
    add("--longest", type=int, default=LONGEST, help="tokens of one conversation")
    add("--rows", type=int, default=64, help="conversations written at once")
    add("--shard-tokens", type=int, default=SHARD_TOKENS)
    add("--seed", type=int, default=0)
    add("--target", help="a hub id or a local folder; left out: the default target")
    add("--cache", type=Path, help="folder that keeps the default target")
    add("--device", help="cpu, cuda, …; left out: CUDA if there is one")
    add("--dtype", choices=["float32", "bfloat16", "float16"], default="bfloat16")
    add("--threads", type=int, help="CPU threads; left out: all")
    return flags


def write(options: argparse.Namespace) -> None:
    _check(options)
    file = read_talks(options.prompts) if options.prompts else None
    source = resolve(options.target, cache=options.cache)
    dtype = getattr(torch, options.dtype)
    target = load_target(source, device=options.device, dtype=dtype, path="plain")
    tokenizer = load_tokenizer(source)
    options.longest = min(options.longest, target.spec.max_positions)
    folder = ShardFolder(
        options.out,
        _origin(options, target.spec.name, tokenizer_digest(tokenizer), file),
        command=shlex.join(["python", "-m", "eagle_core.training.corpus", *sys.argv[1:]]),
        shard_tokens=options.shard_tokens,
    )
    goal = options.tokens or (None if file and options.file_share == 1.0 else DEFAULT_TOKENS)
    with interrupts() as is_interrupted, _progress(folder, goal, file) as finished:
        writer = _writer(options, target, tokenizer, folder, file, finished)
        writer.run(
            is_done=lambda: is_interrupted() or (goal is not None and folder.num_tokens >= goal)
        )
        was_interrupted = is_interrupted()
    sys.stderr.write(
        f"{folder.num_conversations:,} conversations, {folder.num_tokens:,} tokens "
        f"in {options.out}\n"
    )
    if was_interrupted:
        raise KeyboardInterrupt


def _origin(
    options: argparse.Namespace, target: str, tokenizer: str, file: TalkFile | None
) -> Origin:
    """What must be the same for a folder to be continued."""
    return Origin(
        target=target,
        written_in=options.dtype,
        tokenizer=tokenizer,
        seed=options.seed,
        prompts=file.name if file else None,
        answers=options.answers,
        file_share=options.file_share,
        two_turn_share=options.two_turn_share,
        longest=options.longest,
    )


def _writer(
    options: argparse.Namespace,
    target: HfTarget,
    tokenizer: PreTrainedTokenizerBase,
    folder: ShardFolder,
    file: TalkFile | None,
    finished: Callable[[Conversation | None], None],
) -> Writer:
    end_tokens = target.spec.end_tokens
    template = ChatTemplate(tokenizer, target=target.spec.name, end_tokens=end_tokens)
    made = recipes(
        seed=options.seed,
        two_turn_share=options.two_turn_share,
        talks=file.talks if file else (),
        file_share=options.file_share,
        answers=options.answers,
    )
    return Writer(
        made,
        Batch(target, num_seats=options.rows),
        folder,
        num_seats=options.rows,
        end_tokens=end_tokens,
        begin=lambda recipe: dialogue(recipe, template, longest=options.longest),
        finished=finished,
    )


def _check(options: argparse.Namespace) -> None:
    for name in ("tokens", "rows", "longest", "shard_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise OptionError(f"--{name.replace('_', '-')} {value}", expected="1 or more")
    for name in ("file_share", "two_turn_share"):
        if not 0.0 <= getattr(options, name) <= 1.0:
            raise OptionError(
                f"--{name.replace('_', '-')} {getattr(options, name)}",
                expected="a share from 0 to 1",
            )
    if options.seed not in range(2**31):
        raise OptionError(f"--seed {options.seed}", expected="0 or more, below 2^31")


@contextmanager
def _progress(
    folder: ShardFolder, goal: int | None, file: TalkFile | None
) -> Iterator[Callable[[Conversation | None], None]]:
    """A bar of tokens that counts conversations as they end; a file's total is estimated."""
    num_done = folder.next_number + len(folder.waiting)
    num_tokens = folder.num_tokens + sum(len(each.tokens) for each in folder.waiting)
    with tqdm(total=goal, initial=num_tokens, unit="token", unit_scale=True) as bar:

        def finished(conversation: Conversation | None) -> None:
            nonlocal num_done
            num_done += 1
            if goal is None and file is not None:
                bar.total = max(bar.n, round(bar.n * len(file.talks) / num_done))
            bar.update(0 if conversation is None else len(conversation.tokens))

        yield finished


def main(arguments: Sequence[str] | None = None) -> int:
    return run(write, parser().parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
