"""How one conversation comes about, whoever decodes it.

A dialogue is a generator: it asks for turns (`Request`), is sent their tokens, and returns the
conversation, or None where nothing came of it. So a hundred of them can take turns at one target.

Knows turns, templates and loops. Knows nothing of models, batches or files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from eagle_core.options import RunOptions
from eagle_core.sampling import Chance, SeededChance
from eagle_core.training.corpus.conversations import Talk
from eagle_core.training.corpus.template import ChatTemplate

Source = Literal["own", "fixed", "regenerated"]
"""Whose question and answer: the target's both; a file's both; a file's and the target's."""

QUESTION_STYLE = RunOptions(temperature=1.0, top_p=0.95)
GREEDY = RunOptions(temperature=0.0)
ANSWER_STYLES = (
    GREEDY,
    RunOptions(temperature=0.7),
    GREEDY,
    RunOptions(temperature=1.0, top_k=64),
)
"""Conversations take them in turn."""

MIN_QUESTION_TOKENS, MAX_QUESTION_TOKENS = 4, 128
LEAST_CAP, LARGEST_CAP = 224, 320  # an answer is cut somewhere between
MAX_PERIOD, LEAST_LOOP = 64, 32


@dataclass(frozen=True)
class Recipe:
    """What is decided about a conversation before a token of it is written."""

    number: int
    answers: RunOptions
    num_turns: int
    source: Source
    talk: Talk | None
    chance: Chance  # its own: what others draw does not move it


@dataclass(frozen=True)
class Request:
    """A turn to be written after these tokens, up to an end token, a loop, or so many tokens."""

    context: tuple[int, ...]
    style: RunOptions
    max_tokens: int


@dataclass(frozen=True)
class Conversation:
    """One conversation as the shards keep it."""

    number: int
    source: Source
    temperature: float
    tokens: tuple[int, ...]
    answer: tuple[bool, ...]  # true where the assistant wrote the token

    @property
    def prompt(self) -> tuple[int, ...]:
        """All before the first answer: two conversations with the same one are duplicates."""
        return self.tokens[: self.answer.index(True)]


Dialogue = Generator[Request, Sequence[int], Conversation | None]


def recipes(
    *,
    seed: int,
    two_turn_share: float = 0.1,
    talks: Sequence[Talk] = (),
    file_share: float = 1.0,
    answers: Literal["fixed", "regenerated"] = "regenerated",
) -> Iterator[Recipe]:
    """One recipe after the other, always the same ones; without end unless all come from `talks`.

    A conversation is begun by the next of the `talks`, while there are some, with the chance
    `file_share`.
    """
    waiting = iter(talks)
    for number in count():
        chance = SeededChance(seed << 32 | number)
        num_turns = 2 if chance.uniform() < two_turn_share else 1
        talk = next(waiting, None) if talks and chance.uniform() < file_share else None
        if talk is None and talks and file_share == 1.0:
            return
        yield Recipe(
            number=number,
            answers=ANSWER_STYLES[number % len(ANSWER_STYLES)],
            num_turns=num_turns if talk is None else len(talk.questions),
            source="own" if talk is None else answers,
            talk=talk,
            chance=chance,
        )


def dialogue(recipe: Recipe, template: ChatTemplate, *, longest: int) -> Dialogue:
    """Write what the recipe says, never more than `longest` tokens.

    A question that is empty, overlong or in a loop ends the conversation before it; an answer
    that is cut, at its cap, a loop or a mark of the template, ends it after.
    """
    opening = template.opening(recipe.talk.system if recipe.talk else None)
    if opening is None:
        return None
    text = _Text()
    for turn in range(recipe.num_turns):
        lead = opening if turn == 0 else template.gap
        question = yield from _question(recipe, template, turn, (*text.tokens, *lead), longest)
        if question is None:
            break
        asked = (*lead, *question, *template.bridge)
        answer = yield from _answer(recipe, template, turn, (*text.tokens, *asked), longest)
        if not answer:
            break
        text.add(asked, is_answer=False)
        text.add(answer, is_answer=True)
        if answer[-1] != template.end:
            break
    if not text.tokens:
        return None
    return Conversation(
        recipe.number,
        recipe.source,
        recipe.answers.temperature,
        tuple(text.tokens),
        tuple(text.answer),
    )


@dataclass
class _Text:
    tokens: list[int] = field(default_factory=list)
    answer: list[bool] = field(default_factory=list)

    def add(self, tokens: Sequence[int], *, is_answer: bool) -> None:
        self.tokens.extend(tokens)
        self.answer.extend([is_answer] * len(tokens))


def _question(
    recipe: Recipe, template: ChatTemplate, turn: int, context: tuple[int, ...], longest: int
) -> Generator[Request, Sequence[int], tuple[int, ...] | None]:
    if recipe.talk is not None:
        return template.encode_turn(recipe.talk.questions[turn])
    room = longest - len(context)
    if room <= 0:
        return None
    written = yield Request(context, QUESTION_STYLE, min(MAX_QUESTION_TOKENS, room))
    if written[-1] != template.end or len(written) <= MIN_QUESTION_TOKENS:
        return None
    # encoded anew, as the tokenizer would cut a text that a person typed
    return template.encode_turn(template.decode(written[:-1]))


def _answer(
    recipe: Recipe, template: ChatTemplate, turn: int, context: tuple[int, ...], longest: int
) -> Generator[Request, Sequence[int], Sequence[int]]:
    room = longest - len(context)
    if recipe.talk is not None and recipe.source == "fixed":
        if turn == len(recipe.talk.answers):
            return ()
        fixed = template.encode_turn(recipe.talk.answers[turn])
        return () if fixed is None or room <= 0 else (*fixed, template.end)[:room]
    cap = LEAST_CAP + int(recipe.chance.uniform() * (LARGEST_CAP + 1 - LEAST_CAP))
    if room <= 0:
        return ()
    written = yield Request(context, recipe.answers, min(cap, room))
    return template.without_marks(without_loop(written))


def loop_length(tokens: Sequence[int]) -> int | None:
    """How many of the last tokens only repeat those before them; None where there is no loop.

    A loop is at least three rounds of up to `MAX_PERIOD` tokens, `LEAST_LOOP` tokens in all.
    """
    for period in range(1, min(MAX_PERIOD, len(tokens) // 3) + 1):
        span = max(3 * period, LEAST_LOOP)
        if tokens[-1] == tokens[-1 - period] and span <= len(tokens):
            tail = tokens[len(tokens) - span :]
            if tail[period:] == tail[:-period]:
                return span - period
    return None


def without_loop(tokens: Sequence[int]) -> Sequence[int]:
    """A text that ends in a loop, cut after the first round."""
    repeated = loop_length(tokens)
    return tokens if repeated is None else tokens[: len(tokens) - repeated]
