"""What a caller can mend, said in one sentence: got, expected, try.

Every error here is caught once at an entry point and shown as plain words. What can only be
a bug of ours is an `assert` instead.
"""


class EagleError(Exception):
    """Something the caller can mend; its text is one clear sentence for a person.

    `got` says what was met, `expected` what was wanted and `hint` what to do about it.
    """

    def __init__(self, got: str, *, expected: str | None = None, hint: str | None = None) -> None:
        parts = [got]
        if expected is not None:
            parts.append(f"expected {expected}")
        if hint is not None:
            parts.append(f"try {hint}")
        super().__init__("; ".join(parts))


class OptionError(EagleError):
    """An option outside what is allowed."""


class TreeError(EagleError):
    """A draft tree or a tree plan that is not a tree."""


class TargetError(EagleError):
    """A target that cannot be fetched, loaded, or used for tree decoding."""


class HeadError(EagleError):
    """A trained head that cannot be loaded or does not fit the target."""


class PromptError(EagleError):
    """A prompt that cannot be answered: empty, or longer than the context."""


class TraceError(EagleError):
    """A trace that is damaged or from another version."""


class CorpusError(EagleError):
    """A corpus, feature store or checkpoint that cannot be used."""
