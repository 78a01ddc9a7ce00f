"""A target's answers and the features along them, computed once and kept in a folder.

    index.json           whose answers these are, and how long they may get
    answers.jsonl        a line per answer: the prompt's tokens and the answer's
    features-30.f32      (T, K·D) float32, memory-mapped: a row per token of a text but the last,
                         text after text; a file for each choice of taps

Both files only grow, so whatever a kill leaves is gone on with. Knows targets and files. Knows
nothing of drafters.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from eagle_core.errors import OptionError, TargetError
from eagle_core.files import replacing, whole_lines

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.targets.base import Taps, Target

INDEX, ANSWERS = "index.json", "answers.jsonl"
ROW_BYTES = 4  # of a float32
NUM_FINGERPRINTED = 64  # tokens whose embeddings tell one target's weights from another's

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """One text of the target's."""

    prompt: Tokens
    tokens: Tokens

    @property
    def text(self) -> Tokens:
        return self.prompt + self.tokens

    @property
    def num_rows(self) -> int:
        """Features that the text has: the newest token was not read yet."""
        return len(self.text) - 1


@dataclass(frozen=True)
class Origin:
    """What must be the same for two answers to one prompt to be the same."""

    target: str
    weights: str
    dtype: str
    max_new_tokens: int
    temperature: float

    @classmethod
    def of(cls, target: Target, options: RunOptions) -> Origin:
        spec = target.spec
        some = torch.arange(min(NUM_FINGERPRINTED, spec.vocab_size), device=spec.device)
        embeddings = target.embedding()(some).detach().float().cpu().numpy()
        weights = hashlib.sha256(embeddings.tobytes()).hexdigest()[:16]
        length, temperature = options.max_new_tokens, options.temperature
        return cls(spec.name, weights, spec.precision, length, temperature)


class AnswerStore:
    """The answers in a folder; refuses a folder of another target, length or temperature."""

    def __init__(self, folder: Path, *, target: Target, options: RunOptions) -> None:
        self._folder = folder
        self._target = target
        _claim(folder, Origin.of(target, options))
        self._answers = {answer.prompt: answer for answer in _read(folder / ANSWERS)}

    def answer(self, prompt: Sequence[int], write: Callable[[], Tokens]) -> Answer:
        """The answer to a prompt: the one kept, or else what `write` comes to, which is kept."""
        known = self._answers.get(tuple(prompt))
        if known is not None:
            return known
        answer = Answer(tuple(prompt), write())
        with _plain_words(self._folder), (self._folder / ANSWERS).open("a") as file:
            file.write(json.dumps(asdict(answer)) + "\n")
        self._answers[answer.prompt] = answer
        return answer

    def features(self, taps: Taps, *, told: Callable[[float], None]) -> Features:
        """Along all answers kept so far; runs the target over those that have none yet."""
        answers = tuple(self._answers.values())
        path = self._folder / f"features-{'-'.join(map(str, taps))}.f32"
        kept = Features(path, answers, width=self._target.spec.width * len(taps))
        with _plain_words(self._folder), path.open("ab") as file:
            num_done = kept.num_whole(file.tell())
            file.truncate(kept.num_bytes(num_done))
            for number, answer in enumerate(answers[num_done:], start=num_done):
                told(number / len(answers))
                file.write(_read_through(self._target, answer, taps).numpy().tobytes())
        return kept


@dataclass(frozen=True)
class Features:
    """Rows of a file, the answers' one after the other; `width` is K·D."""

    path: Path
    answers: tuple[Answer, ...]
    width: int

    def along(self, answer: Answer) -> Tensor:
        """(R, K·D) float32, a row per token of its text but the last."""
        end = self._ends[self.answers.index(answer)]
        return torch.from_numpy(np.array(self._rows[end - answer.num_rows : end]))

    def num_whole(self, num_bytes: int) -> int:
        """How many answers, from the first, have all their rows in a file of this size."""
        return bisect_right(self._ends, num_bytes // (self.width * ROW_BYTES))

    def num_bytes(self, num_answers: int) -> int:
        return self.width * ROW_BYTES * (self._ends[num_answers - 1] if num_answers else 0)

    @cached_property
    def _ends(self) -> list[int]:
        """Per answer the row after its last."""
        return list(accumulate(answer.num_rows for answer in self.answers))

    @cached_property
    def _rows(self) -> NDArray[np.float32]:
        shape = (self._ends[-1], self.width)
        return np.memmap(self.path, dtype=np.float32, mode="r", shape=shape)


def _read_through(target: Target, answer: Answer, taps: Taps) -> Tensor:
    """(R, K·D) on the CPU, by one pass over the text."""
    text = torch.tensor(answer.text[:-1], device=target.spec.device)
    features = target.open().prefill(text, taps=taps).features.float().cpu()
    if not features.isfinite().all():
        raise TargetError(f"{target.spec.name} has features that are no numbers")
    return features


def _claim(folder: Path, origin: Origin) -> None:
    """Make the folder this origin's; refuse one that is another's."""
    path = folder / INDEX
    with _plain_words(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with replacing(path) as staged:
                staged.write_text(json.dumps(asdict(origin), indent=2) + "\n")
        found = _origin(path)
    for name, value in asdict(origin).items():
        if found.get(name) != value:
            raise OptionError(
                f"answers in {folder} with {name} {found.get(name)}",
                expected=str(value),
                hint="another --answers folder",
            )


def _origin(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError(f"{INDEX} holds no object")
    return found


def _read(path: Path) -> Iterator[Answer]:
    """Answers of earlier runs; a last line that a kill left unfinished is dropped."""
    with _plain_words(path.parent):
        path.touch()
        for line in whole_lines(path):
            yield _answer(json.loads(line))


def _answer(data: dict[str, list[int]]) -> Answer:
    prompt, tokens = (tuple(map(int, data[name])) for name in ("prompt", "tokens"))
    return Answer(prompt, tokens)


@contextlib.contextmanager
def _plain_words(folder: Path) -> Iterator[None]:
    """Turn what is wrong with the folder, or the disk, into one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"answers in {folder} cannot be used ({error})", hint="another --answers folder"
        ) from error
