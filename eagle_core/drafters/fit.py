"""Whether a head belongs to a target: sizes, declared base model, tokenizer.

Knows configs and what a target says of itself. Knows nothing of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from eagle_core.drafters.eagle3 import Eagle3Config
from eagle_core.drafters.files import TOKENIZER, name_of
from eagle_core.drafters.layouts import AnyConfig
from eagle_core.drafters.small import SmallConfig
from eagle_core.errors import HeadError
from eagle_core.targets.base import TargetSpec

_TRAINED_HERE = "a head trained on this target"


def check_sizes(name: str, config: AnyConfig, spec: TargetSpec) -> None:
    width = config.feature_width if isinstance(config, Eagle3Config) else config.width
    if isinstance(config, SmallConfig):
        _check_small(name, config, spec)
    elif width != spec.width:
        raise HeadError(
            f"head {name} has width {width}",
            expected=f"{spec.width}, the width of target {spec.name}",
            hint=_TRAINED_HERE,
        )
    if config.width != width and not config.owns_embedding:
        raise HeadError(
            f"head {name} is {config.width} wide inside and brings no embed_tokens.weight",
            expected=f"embeddings of its own, since those of {spec.name} are {width} wide",
        )
    if config.vocab_size != spec.vocab_size:
        raise HeadError(
            f"head {name} has a vocabulary of {config.vocab_size} tokens",
            expected=f"{spec.vocab_size}, that of target {spec.name}",
            hint=_TRAINED_HERE,
        )


def _check_small(name: str, config: SmallConfig, spec: TargetSpec) -> None:
    """Between embeddings and an unembedding of its own a model may have any width."""
    if config.width != spec.width and not (config.owns_embedding and config.owns_unembedding):
        raise HeadError(
            f"draft model {name} has width {config.width}, without embed_tokens and lm_head",
            expected=f"both of its own, since those of {spec.name} are {spec.width} wide",
        )


def check_declared_target(name: str, config: AnyConfig, spec: TargetSpec) -> None:
    """Names are compared where they are of one kind: two hub ids, or two folders.

    Whoever publishes a copy of a model changes the owner, so the owner is left out.
    """
    declared = config.target
    if not declared or ("/" in declared) != ("/" in spec.name):
        return
    if declared.lower().rsplit("/", 1)[-1] != spec.name.lower().rsplit("/", 1)[-1]:
        raise HeadError(
            f"head {name} was made for {declared}",
            expected=f"a head for {spec.name}",
            hint=f"--target {declared}",
        )


def check_tokenizer(folder: Path, of_target: Mapping[str, int] | None) -> None:
    """A tokenizer beside the head must number the tokens as the target's does."""
    path = folder / TOKENIZER
    if of_target is None or not path.exists():
        return
    try:
        own = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
    except Exception as error:  # noqa: BLE001  the library raises nothing more special
        raise HeadError(f"{path} cannot be read ({error})", hint="a fresh copy of it") from None
    differing = [token for token, number in own.items() if of_target.get(token, number) != number]
    if differing or not own.keys() & of_target.keys():
        told = min(differing, key=own.__getitem__) if differing else next(iter(own))
        name = name_of(folder)
        raise HeadError(
            f"head {name} comes with a tokenizer where {told!r:.40} is token {own[told]}",
            expected=f"{of_target.get(told, 'no such token')}, as in the target's",
            hint=_TRAINED_HERE,
        )
