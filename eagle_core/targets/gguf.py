"""Turn a GGUF file into a plain transformers folder: safetensors, config, tokenizer, template.

Knows two things that are lost on the way otherwise: the weights must leave their blocks, and the
file names its pre-tokenizer without carrying it. Knows nothing of caches, networks or decoding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from eagle_core.errors import TargetError

if TYPE_CHECKING:
    from pathlib import Path


def digit_splitting_byte_level(tokenizer: Tokenizer) -> None:
    r"""Split off every digit before the byte-level pattern looks at spaces.

    Without it "so:\n\n1." reads as "\n", "\n", "1" where the model was trained on "\n\n", "1".
    """
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )


PRE_TOKENIZERS: dict[str, Callable[[Tokenizer], None]] = {"smollm": digit_splitting_byte_level}
"""The value of `tokenizer.ggml.pre` to the repair it calls for."""


def convert(source: Path, folder: Path, *, pre_tokenizer: str) -> None:
    """Write the model in `source`, de-quantised to fp32, as a transformers folder.

    fp32, because a Q4_1 value (fp16 scale × 4-bit step + fp16 offset) fits no 16-bit format.
    """
    place = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    with quiet_transformers():
        tokenizer: Any = AutoTokenizer.from_pretrained(**place)
        model: Any = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    PRE_TOKENIZERS[pre_tokenizer](tokenizer.backend_tokenizer)
    _check_template(tokenizer)
    tokenizer.save_pretrained(folder)
    _save_model(model, folder, end_token=tokenizer.eos_token_id)


def _save_model(model: Any, folder: Path, *, end_token: int) -> None:
    """Write weights and config by hand: transformers refuses to save what it loaded from GGUF."""
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=end_token, pad_token_id=end_token
    ).save_pretrained(folder)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    weights = {
        name: weight.detach().contiguous()
        for name, weight in model.state_dict().items()
        if name not in tied
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _check_template(tokenizer: Any) -> None:
    turn = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    ids = tokenizer.encode(text, add_special_tokens=False)
    if ids[0] != tokenizer.bos_token_id or ids[1] == tokenizer.bos_token_id:
        raise TargetError(
            f"a chat template that opens with token ids {ids[:2]}",
            expected=f"exactly one opening token {tokenizer.bos_token_id}",
        )


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' bars and advice from the user; errors still come through."""
    verbosity = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()
