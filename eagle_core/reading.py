"""Read JSON that nobody vouches for, value by value, and name the key at fault.

    record = Record(data, "event")
    record.get("token", whole)        record.maybe("bonus", whole)        record.each("path", whole)

Whatever is wrong ends in a `TraceError`. Knows kinds of values. Knows nothing of traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from eagle_core.errors import EagleError, TraceError

Value = TypeVar("Value")


class Record:
    """A JSON object being read, which names the key at fault."""

    def __init__(self, data: object, what: str) -> None:
        if not isinstance(data, dict):
            raise TraceError(f"{what} is {type(data).__name__}", expected="an object")
        self._data: Mapping[str, object] = data
        self._what = what

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def get(self, key: str, read: Callable[[object], Value]) -> Value:
        if key not in self._data:
            raise TraceError(f"{self._what} without {key!r}", hint="a file saved by this project")
        try:
            return read(self._data[key])
        except WrongValueError as error:
            raise TraceError(f"{self._what}.{key} is {error}") from error

    def maybe(self, key: str, read: Callable[[object], Value]) -> Value | None:
        return None if self._data.get(key) is None else self.get(key, read)

    def each(
        self, key: str, read: Callable[[object], Value], *, length: int | None = None
    ) -> list[Value]:
        values = self.get(key, sequence)
        if length is not None and len(values) != length:
            raise TraceError(f"{len(values)} values in {self._what}.{key}", expected=str(length))
        try:
            return [read(value) for value in values]
        except WrongValueError as error:
            raise TraceError(f"{self._what}.{key} holds {error}") from error


class WrongValueError(EagleError):
    """A value of another kind than its key wants; `Record` adds the key."""


def wrong(value: object, expected: str) -> WrongValueError:
    return WrongValueError(f"{value!r:.60}", expected=expected)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise wrong(value, "text")
    return value


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise wrong(value, "a whole number of at least 0")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong(value, "true or false")
    return value


def number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(value, "a number")
    if not -1e15 < value < 1e15:  # nothing that is no number lies between
        raise wrong(value, "a finite number")
    return float(value)


def quantity(value: object) -> float:
    amount = number(value)
    if amount < 0:
        raise wrong(value, "a finite number of at least 0")
    return amount


def probability(value: object) -> float:
    share = quantity(value)
    if share > 1:
        raise wrong(value, "a probability")
    return share


def sequence(value: object) -> list[object]:
    if not isinstance(value, list):
        raise wrong(value, "a list")
    return value


def mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(value, "an object")
    return value


def or_none(read: Callable[[object], Value]) -> Callable[[object], Value | None]:
    return lambda value: None if value is None else read(value)


def texts(value: object) -> dict[str, str]:
    return {name: text(each) for name, each in mapping(value).items()}
