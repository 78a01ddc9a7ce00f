"""A corpus in the making: a folder of shards, the last of which is still open.

    corpus-00000.npz   full          tokens, answer, lengths as the trainer reads them; and per
    corpus-00001.npz   open          conversation its number, source and temperature
    corpus-….note.json beside each
    waiting.part       conversations that are finished before one with a lower number

Conversations come in the order of their numbers, so that the last one kept says where to go on.
Knows files and conversations. Knows nothing of models or text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
ELSEWHERE = "another --out folder"
WAITING = "waiting.part"  # no .npz by name: the trainer shall not read it
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
        self.num_tokens = self.num_conversations = self.next_number = 0
        for shard in sorted(path.glob("*.npz")):
            if shard != self._shard():
                raise CorpusError(
                    f"{shard} is not the next shard", expected=self._shard().name, hint=ELSEWHERE
                )
            for conversation in self._read(shard):
                self._keep(conversation)
            if self._is_full():
                self._turn_over()
        waiting = path / WAITING
        found = self._read(waiting) if waiting.exists() else []
        self.waiting = tuple(each for each in found if each.number >= self.next_number)

    def add(self, conversation: Conversation) -> bool:
        """Keep a conversation; False for a prompt that is there already. A full shard is saved."""
        if conversation.prompt in self._prompts:
            return False
        self._keep(conversation)
        if self._is_full():
            self._save(self._shard(), self._open)
            self._turn_over()
        return True

    def save(self, waiting: Sequence[Conversation]) -> None:
        """Write the open shard and those who wait, each file whole or not at all."""
        for path, conversations in ((self._shard(), self._open), (self._path / WAITING, waiting)):
            if conversations:
                self._save(path, conversations)
            else:
                path.unlink(missing_ok=True)

    def _save(self, path: Path, conversations: Sequence[Conversation]) -> None:
        self._note(conversations).save(path)
        write_atomically(path, partial(_write, conversations))

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

    def _shard(self) -> Path:
        return self._path / f"corpus-{self._index:05}.npz"

    def _read(self, path: Path) -> list[Conversation]:
        """Refuses what another command made."""
        note = read_note(path)
        if note is None:
            raise CorpusError(f"{path} has no note on how it was made", hint=ELSEWHERE)
        for name, value in asdict(self._origin).items():
            found = getattr(note.origin, name)
            if found != value:
                raise CorpusError(
                    f"the corpus in {self._path} has {name} {found}",
                    expected=str(value),
                    hint=ELSEWHERE,
                )
        return _read(path)

    def _note(self, kept: Sequence[Conversation]) -> Note:
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


def _write(conversations: Sequence[Conversation], path: Path) -> None:
    tokens = np.array([token for each in conversations for token in each.tokens], np.int64)
    kind = np.uint16 if tokens.max(initial=0) <= np.iinfo(np.uint16).max else np.uint32
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            tokens=tokens.astype(kind),
            answer=np.array([mark for each in conversations for mark in each.answer], np.uint8),
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
