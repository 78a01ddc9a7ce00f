"""A chat template taken apart, so that a conversation can be written token by token.

    [user]⏎ question [end]⏎[assistant]⏎ answer [end] ⏎[user]⏎ question …
    opening          ──────bridge──────        =end= ──gap───

Knows tokenizers and chat templates. Knows nothing of models or decoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from eagle_core.errors import TargetError
from eagle_core.text import HALF_CHARACTER

QUESTION, ANSWER, FOLLOW_UP = "some-question", "some-answer", "some-follow-up"


class ChatTemplate:
    """What a template puts around turns, as token ids; raises TargetError where it has no turns."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, target: str, end_tokens: frozenset[int]
    ) -> None:
        self._tokenizer: Any = tokenizer
        self._target = target
        if not self._tokenizer.chat_template:
            raise TargetError(
                f"target {target} has no chat template", expected="a chat model", hint="another one"
            )
        added = self._tokenizer.added_tokens_decoder.items()
        self._special = {*self._tokenizer.all_special_ids, *(t for t, a in added if a.special)}
        asked = self._rendered(_turns(QUESTION), add_generation_prompt=True)
        self.bridge = self.encode(self._between(asked, QUESTION, None))
        followed = self._rendered(_turns(QUESTION, ANSWER, FOLLOW_UP))
        gap = self.encode(self._between(followed, ANSWER, FOLLOW_UP))
        at = next((i for i, token in enumerate(gap) if token in end_tokens), None)
        if at is None:
            raise self._refusal("ends no answer with one of the target's end tokens")
        self.end, self.gap = gap[at], gap[at + 1 :]

    def opening(self, system: str | None = None) -> tuple[int, ...] | None:
        """All before the first question; None where the template wants no such system's words."""
        told = [] if system is None else [{"role": "system", "content": system}]
        try:
            text = self._tokenizer.apply_chat_template(told + _turns(QUESTION), tokenize=False)
        except (TemplateError, ValueError, TypeError):
            return None
        return self.encode(text.partition(QUESTION)[0]) if QUESTION in text else None

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def encode_turn(self, text: str) -> tuple[int, ...] | None:
        """A turn's own tokens; None where the text is empty, broken or holds a special token."""
        ids = self.encode(text.strip())
        is_broken = HALF_CHARACTER in text or not self._special.isdisjoint(ids)
        return None if is_broken or not ids else ids

    def without_marks(self, tokens: Sequence[int]) -> Sequence[int]:
        """A written turn up to the first special token that does not end it."""
        marks = (i for i, t in enumerate(tokens) if t in self._special and t != self.end)
        return tokens[: next(marks, len(tokens))]

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)
        return text

    def _rendered(self, turns: list[dict[str, str]], **more: bool) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(turns, tokenize=False, **more)
        except (TemplateError, ValueError, TypeError) as error:
            raise TargetError(
                f"the chat template of {self._target} cannot be used ({error})",
                hint="another target",
            ) from error
        return text

    def _between(self, text: str, left: str, right: str | None) -> str:
        """What stands between two marks, or after the one."""
        _, _, after = text.partition(left)
        between, mark, _ = (after, "end of text", "") if right is None else after.partition(right)
        if not between or not mark:
            raise self._refusal("does not keep turns as they are given")
        return between

    def _refusal(self, why: str) -> TargetError:
        return TargetError(f"the chat template of {self._target} {why}", hint="another target")


def tokenizer_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of the vocabulary: the same ids mean the same tokens."""
    words = sorted((number, word) for word, number in tokenizer.get_vocab().items())
    return hashlib.sha256("\n".join(f"{n} {word}" for n, word in words).encode()).hexdigest()


def _turns(*texts: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
