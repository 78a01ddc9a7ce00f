"""A corpus in the making: a folder of shards, the last of which is still open.

    corpus-00000.npz   full          tokens, answer, lengths as the trainer reads them; and per
    corpus-00001.npz   open          conversation its number, source and temperature
    corpus-….note.json beside each

Conversations come in the order of their numbers, so that the last one kept says where to go on.
Knows files and conversations. Knows nothing of models or text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from eagle_core.errors import CorpusError
from eagle_core.training.corpus.arrays import ARRAYS, read_arrays
from eagle_core.training.corpus.dialogue import Conversation, Source
from eagle_core.training.corpus.notes import Note, Origin, read_note
from eagle_core.training.files import write_atomically

SHARD_TOKENS = 200_000
SAVE_EVERY = 32  # conversations
SOURCES: tuple[Source, ...] = get_args(Source)
OWN_ARRAYS = ("numbers", "sources", "hundredths")


class ShardFolder:
    """All that was kept so far; `add` and `save` change it.

    Raises CorpusError for a folder that holds another corpus than this one, and in one sentence
    when the disk is full: what was saved before stays sound.
    """

    def __init__(
        self, path: Path, origin: Origin, *, command: str, shard_tokens: int = SHARD_TOKENS
    ) -> None:
        self._path, self._origin, self._command = path, origin, command
        self._shard_tokens = shard_tokens
        self._open: list[Conversation] = []
        self._index = 0  # of the open shard
        self._prompts: set[tuple[int, ...]] = set()
        self._num_unsaved = 0
        self.num_tokens = self.num_conversations = self.next_number = 0
        for shard in sorted(path.glob("*.npz")):
            self._check(shard)
            for conversation in _read(shard):
                self._keep(conversation)
            if self._is_full():
                self._turn_over()

    def add(self, conversation: Conversation) -> bool:
        """Keep a conversation and save now and then; False for a prompt that is there already."""
        if conversation.prompt in self._prompts:
            return False
        self._keep(conversation)
        self._num_unsaved += 1
        if self._is_full() or self._num_unsaved >= SAVE_EVERY:
            self.save()
        if self._is_full():
            self._turn_over()
        return True

    def save(self) -> None:
        """Write the open shard, whole or not at all."""
        if not self._open:
            return
        shard = self._shard(self._index)
        self._note().save(shard)
        write_atomically(shard, partial(_write, self._open))
        self._num_unsaved = 0

    def _keep(self, conversation: Conversation) -> None:
        self._open.append(conversation)
        self._prompts.add(conversation.prompt)
        self.num_tokens += len(conversation.tokens)
        self.num_conversations += 1
        self.next_number = conversation.number + 1

    def _is_full(self) -> bool:
        return sum(len(each.tokens) for each in self._open) >= self._shard_tokens

    def _turn_over(self) -> None:
        self._open = []
        self._index += 1

    def _shard(self, index: int) -> Path:
        return self._path / f"corpus-{index:05}.npz"

    def _check(self, shard: Path) -> None:
        if shard != self._shard(self._index):
            raise CorpusError(
                f"{shard} is not the next shard", expected=self._shard(self._index).name,
                hint="an empty --out folder",
            )  # fmt: skip
        note = read_note(shard)
        if note is None:
            raise CorpusError(f"{shard} has no note", hint="another --out folder")
        for name, value in asdict(self._origin).items():
            found = getattr(note.origin, name)
            if found != value:
                raise CorpusError(
                    f"the corpus in {self._path} has {name} {found}",
                    expected=str(value),
                    hint="another --out folder",
                )

    def _note(self) -> Note:
        kept = self._open
        kinds = Counter[str](each.source for each in kept)
        kinds.update(
            "greedy" if each.temperature == 0 else "sampled"
            for each in kept
            if each.source != "fixed"
        )
        return Note(
            origin=self._origin,
            command=self._command,
            num_conversations=len(kept),
            num_tokens=sum(len(each.tokens) for each in kept),
            num_answer_tokens=sum(sum(each.answer) for each in kept),
            shares={kind: round(kinds[kind] / len(kept), 4) for kind in sorted(kinds)},
        )


def _write(conversations: list[Conversation], path: Path) -> None:
    tokens = np.concatenate([each.tokens for each in conversations])
    kind = np.uint16 if tokens.max() <= np.iinfo(np.uint16).max else np.uint32
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            tokens=tokens.astype(kind),
            answer=np.concatenate([each.answer for each in conversations]).astype(np.uint8),
            lengths=np.array([len(each.tokens) for each in conversations], np.int32),
            numbers=np.array([each.number for each in conversations], np.int64),
            sources=np.array([SOURCES.index(each.source) for each in conversations], np.uint8),
            hundredths=np.array(
                [round(100 * each.temperature) for each in conversations], np.uint8
            ),
        )


def _read(shard: Path) -> list[Conversation]:
    arrays = read_arrays(shard, (*ARRAYS, *OWN_ARRAYS))
    ends = np.cumsum(arrays["lengths"])[:-1]
    parts = zip(
        *(arrays[name].tolist() for name in OWN_ARRAYS),
        np.split(arrays["tokens"], ends),
        np.split(arrays["answer"].astype(bool), ends),
        strict=True,
    )
    return [
        Conversation(
            number,
            SOURCES[source],
            hundredths / 100,
            tuple(tokens.tolist()),
            tuple(answer.tolist()),
        )
        for number, source, hundredths, tokens, answer in parts
    ]
