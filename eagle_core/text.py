"""Prompts to token ids, and token ids to text a person can read.

Knows tokenizers and chat templates. Knows nothing of models or decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eagle_core.errors import PromptError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HALF_CHARACTER = "\ufffd"
MAX_PROMPT_CHARACTERS = 50_000
MAX_CONVERSATION_CHARACTERS = 200_000
ROLES = ("system", "user", "assistant")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # what bytes that are no UTF-8 arrive as

TOKENS_PER_CHARACTER = 4  # bytes of a character at most, each of which may be a token
SPARE_TOKENS = 16  # for special tokens within a stop string's reach, which have no text

Decode = Callable[[Sequence[int]], str]
Conversation = Sequence[Mapping[str, str]]
"""Turns of `role` (system, user or assistant) and `content`; the last one is the user's."""


def check_prompt(prompt: str) -> None:
    """Raises `PromptError` for what no target can answer; what fits is counted in tokens later."""
    if not isinstance(prompt, str):
        raise PromptError(f"a prompt of {type(prompt).__name__}", expected="text")
    if not prompt.strip():
        raise PromptError("the prompt is empty", hint="typing a question first")
    if LONE_SURROGATE.search(prompt):
        raise PromptError("a prompt with broken characters", hint="typing it again")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise PromptError(
            f"a prompt of {len(prompt):,} characters",
            expected=f"at most {MAX_PROMPT_CHARACTERS:,}",
            hint="a shorter one",
        )


def is_broken(text: str) -> bool:
    """Whether it holds what is no character, or stands for one that could not be read."""
    return HALF_CHARACTER in text or LONE_SURROGATE.search(text) is not None


def as_conversation(prompt: str | Conversation) -> Conversation:
    """The checked turns; raises `PromptError`."""
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not turns or turns[-1].get("role") != "user":
        raise PromptError("a conversation that asks nothing", expected="a user's turn at its end")
    for turn in turns:
        if turn.get("role") not in ROLES or not isinstance(turn.get("content"), str):
            raise PromptError(
                f"a turn of role {turn.get('role')!r:.40}",
                expected=f"role {', '.join(ROLES)}, and content in text",
            )
        if turn["role"] == "user" or turn["content"].strip():
            check_prompt(turn["content"])
    num_characters = sum(len(turn["content"]) for turn in turns)
    if num_characters > MAX_CONVERSATION_CHARACTERS:
        raise PromptError(
            f"a conversation of {num_characters:,} characters",
            expected=f"at most {MAX_CONVERSATION_CHARACTERS:,}",
            hint="starting afresh",
        )
    return turns


class ChatText:
    """A target's tokenizer as the product uses it; one for all lanes, nothing in it changes."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer: Any = tokenizer

    def encode_chat(self, prompt: str | Conversation) -> list[int]:
        """A user's turn, or a conversation that ends with one, up to where the answer begins.

        The target's chat template goes straight to ids, so that no beginning-of-text token is
        added to those it renders. A tokenizer without a template gets the bare prompt. Raises
        PromptError for what is empty, broken, too long, or no conversation to the template.
        """
        turns = as_conversation(prompt)
        if self._tokenizer.chat_template:
            return self._render(turns)
        if len(turns) > 1:
            raise PromptError(
                f"a conversation of {len(turns)} turns for a target without a chat template",
                expected="a single prompt",
            )
        return list(self._tokenizer(turns[0]["content"])["input_ids"])

    def _render(self, turns: Conversation) -> list[int]:
        from jinja2 import TemplateError  # as heavy as what needs it, which is loaded by now

        try:
            ids = self._tokenizer.apply_chat_template(
                [dict(turn) for turn in turns],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
        except TemplateError as error:
            raise PromptError(
                f"a conversation that the target's chat template refuses ({error})",
                expected="turns of user and assistant, one after the other",
            ) from None
        return list(ids)

    def piece(self, token: int) -> str:
        """How a token looks by itself, special tokens by name and leading spaces kept."""
        text: str = self._tokenizer.decode([token], skip_special_tokens=False)
        raw = self._tokenizer.convert_ids_to_tokens(token)
        is_space_lost = isinstance(raw, str) and raw.startswith("▁") and not text.startswith(" ")
        return f" {text}" if is_space_lost else text

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def stream(self, stop: Sequence[str] = ()) -> TextStream:
        return TextStream(self.decode, stop=stop)


class TextStream:
    """Text token by token, never half a character; `read` is what changes it.

    A character spread over several tokens comes whole with its last one. Tokens are decoded
    after the ones before them, since many tokenizers tell a word's space only in context.
    Text ends before the first of the strings `stop`; what may yet become one of them waits.
    """

    def __init__(self, decode: Decode, *, stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = tuple(stop)
        self._held = ""  # the beginning of what may become a stop string
        self._is_over = False  # a stop string has been met
        self._window: list[int] = []  # the tokens decoded together: some context, then new ones
        self._num_context = 0  # tokens of the window whose text has been given out whole
        self._num_given = 0  # characters of the window's text that have been given out

    def read(self, tokens: Sequence[int], *, is_last: bool = False) -> tuple[str, ...]:
        """The text each of these tokens completes; at the end the rest comes with the last one."""
        texts = [self._read_one(token) for token in tokens]
        if is_last and texts:
            texts[-1] += self._decode(self._window)[self._num_given :]
        if not self._stop:
            return tuple(texts)
        shown = [self._before_stop(text) for text in texts]
        if is_last and shown and not self._is_over:
            shown[-1] += self._held
        return tuple(shown)

    def _before_stop(self, text: str) -> str:
        """What of the text held back and of `text` can be shown by now."""
        if self._is_over:
            return ""
        text = self._held + text
        self._is_over = (end := find_stop(text, self._stop)) is not None
        if end is None:
            end = len(text) - num_to_hold(text, self._stop)
        self._held = text[end:]
        return text[:end]

    def _read_one(self, token: int) -> str:
        self._window.append(token)
        whole = self._decode(self._window)
        complete = whole.rstrip(HALF_CHARACTER)  # what may still become a character waits
        text = complete[self._num_given :]
        self._num_given = max(self._num_given, len(complete))
        if complete == whole:
            self._slide()
        return text

    def _slide(self) -> None:
        """Keep only the newest tokens as context for those to come."""
        self._window = self._window[self._num_context :]
        self._num_context = len(self._window)
        self._num_given = len(self._decode(self._window))


def find_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop string begins in `text`, None where there is none."""
    places = [place for string in stop if (place := text.find(string)) >= 0]
    return min(places, default=None)


def num_to_hold(text: str, stop: Sequence[str]) -> int:
    """Characters at the end of `text` that may be the beginning of a stop string."""
    longest = max(map(len, stop), default=0)
    return next(
        (
            num
            for num in range(min(longest - 1, len(text)), 0, -1)
            if any(string.startswith(text[-num:]) for string in stop)
        ),
        0,
    )


@dataclass(frozen=True)
class StopStrings:
    """Finds the token that completes a stop string, wherever steps begin and end."""

    strings: tuple[str, ...]
    decode: Decode

    def num_until(self, before: Sequence[int], tokens: Sequence[int]) -> int | None:
        """How many of `tokens`, which follow the answer `before`, bring the first stop string.

        Looks back far enough for strings that began in `before`; None where there is none.
        """
        reach = TOKENS_PER_CHARACTER * max(map(len, self.strings)) + SPARE_TOKENS
        context = list(before[-reach:])
        if find_stop(self.decode([*context, *tokens]), self.strings) is None:
            return None
        for num in range(1, len(tokens) + 1):
            if find_stop(self.decode([*context, *tokens[:num]]), self.strings) is not None:
                return num
        return None
