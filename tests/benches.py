"""Real workbenches around tiny models: everything of the product but its weights and tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from made import ENVIRONMENT
from proofs import World, world

from eagle_core.drafters.heads import LoadedHead
from eagle_core.text import Conversation, TextStream, as_conversation
from eagle_core.workbench import Workbench

LETTERS = "abcdefghijklmnopqrstuvw"


@dataclass(frozen=True)
class LetterText:
    """A tokenizer of 23 letters; what is none of them becomes one."""

    def encode_chat(self, prompt: str | Conversation) -> list[int]:
        turns = as_conversation(prompt)
        return [ord(letter) % len(LETTERS) for turn in turns for letter in turn["content"]]

    def piece(self, token: int) -> str:
        return LETTERS[token]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(LETTERS[token] for token in tokens)

    def stream(self, stop: Sequence[str] = ()) -> TextStream:
        return TextStream(self.decode, stop=stop)


def tiny_bench(made: World | None = None) -> Workbench:
    made = made or world(0)
    taps = made.head.taps(made.target.spec.num_layers)
    head = LoadedHead(made.head, vocabulary=None, folder=Path("toy-head"), taps=taps)
    text: Any = LetterText()
    return Workbench(
        target=made.target,
        head=head,
        unembedding=made.target.unembedding(),
        text=text,
        environment=ENVIRONMENT,
    )
