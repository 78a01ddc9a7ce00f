"""The fast path gives what the plain path gives, for every family that it takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_hf import CLOSE, PROMPT, SIZES, TREE
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from eagle_core.targets.hf import HfTarget
from eagle_core.targets.llama import LlamaTarget, is_supported

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
FAMILIES: dict[str, Any] = {
    "llama": LlamaConfig(**SIZES),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True),
    "llama 3": LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=True),
    "llama of one head a group": LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "mistral": MistralConfig(**SIZES, sliding_window=None, head_dim=16),
    "mistral within its window": MistralConfig(**SIZES, sliding_window=64),
    "qwen 2": Qwen2Config(**SIZES),
    "qwen 3": Qwen3Config(**SIZES, head_dim=12),
}


def both(config: Any, dtype: torch.dtype = torch.float32) -> tuple[HfTarget, LlamaTarget]:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).to(dtype)
    for name, weight in model.named_parameters():
        if "norm" in name or "bias" in name:  # else ones and zeros, which hide their use
            torch.nn.init.normal_(weight, mean=1.0, std=0.3)
    assert is_supported(model)
    return HfTarget(model, name="plain"), LlamaTarget(model, name="fast")


@pytest.mark.parametrize("family", FAMILIES)
def test_prefill_tree_and_commit_equal_those_of_the_plain_path(family: str) -> None:
    plain, fast = (target.open() for target in both(FAMILIES[family]))
    for run in (plain, fast):
        run.prefill(PROMPT)
    for path in ((0, 2, 6), (0,), (0, 1, 4, 5)):
        expected, seen = (run.score_tree(TREE, taps=(0, 1, 2)) for run in (plain, fast))
        torch.testing.assert_close(seen.logits, expected.logits, **CLOSE)
        torch.testing.assert_close(seen.features, expected.features, **CLOSE)
        for run in (plain, fast):
            run.keep_path(path)
    assert fast.num_cached == plain.num_cached


def test_in_half_precision_the_two_paths_are_as_near_as_its_rounding() -> None:
    plain, fast = (target.open() for target in both(FAMILIES["qwen 3"], torch.bfloat16))
    expected, seen = (run.prefill(PROMPT, taps=(2,)) for run in (plain, fast))
    spread = float(expected.logits.float().std())
    assert (seen.logits - expected.logits).float().square().mean().sqrt() < 0.05 * spread


def test_the_fast_path_goes_on_without_the_models_own_layers() -> None:
    plain, fast = both(FAMILIES["llama"])
    expected = plain.open().prefill(PROMPT).logits
    fast.release()
    torch.testing.assert_close(fast.open().prefill(PROMPT).logits, expected, **CLOSE)
    assert sum(weight.numel() for weight in fast.model.base_model.layers.parameters()) == 0


@pytest.mark.parametrize(
    "config",
    [
        Gemma2Config(**SIZES),
        LlamaConfig(**SIZES, rope_parameters={"rope_type": "dynamic", "factor": 2.0}),
        LlamaConfig(**SIZES, hidden_act="gelu"),
    ],
)
def test_what_it_does_not_compute_is_left_to_the_plain_path(config: Any) -> None:
    assert not is_supported(AutoModelForCausalLM.from_config(config))
