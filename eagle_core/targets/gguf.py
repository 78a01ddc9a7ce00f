"""Turn a GGUF file into a plain transformers folder: safetensors, config, tokenizer, template.

Knows two things that are lost on the way otherwise: the weights must leave their blocks, and the
file names its pre-tokenizer without carrying it. Knows nothing of caches, networks or decoding.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer

from eagle_core.errors import TargetError
from eagle_core.targets.loading import quiet_transformers

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

    fp32, because a Q4_1 value (4 bits, an fp16 scale, an fp16 offset) fits no 16-bit format.
    """
    place, name = source.parent, source.name
    # One of its bars obeys no switch; elsewhere stderr is not missed for these few seconds.
    with quiet_transformers(), contextlib.redirect_stderr(io.StringIO()):
        tokenizer: Any = AutoTokenizer.from_pretrained(place, gguf_file=name)
        model: Any = AutoModelForCausalLM.from_pretrained(
            place, gguf_file=name, dtype=torch.float32
        )
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
    model.generation_config.eos_token_id = end_token
    model.generation_config.save_pretrained(folder)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    weights = {
        name: weight.detach().contiguous()
        for name, weight in model.state_dict().items()
        if name not in tied
    }
    file = folder / "model.safetensors"
    save_file(weights, file, metadata={"format": "pt"})
    file.chmod(0o644)  # save_file leaves it to its owner alone; a cache may be shared


def _check_template(tokenizer: Any) -> None:
    turn = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    ids = tokenizer.encode(text, add_special_tokens=False)
    if ids[0] != tokenizer.bos_token_id or ids[1] == tokenizer.bos_token_id:
        raise TargetError(
            f"a chat template that opens with token ids {ids[:2]}",
            expected=f"exactly one opening token {tokenizer.bos_token_id}",
        )
