"""Common families as targets: tiny random models of each, against their own plain forward."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from toys import eagle_drafter

from eagle_core.decoding import Decoding
from eagle_core.engine import Engine
from eagle_core.errors import TargetError
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import static_tree
from eagle_core.targets import probe
from eagle_core.targets.hf import HfTarget, max_positions
from eagle_core.tree import DraftTree

WINDOW = 32
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "initializer_range": 0.3,  # large enough for attention to matter
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
GEMMA3 = {"sliding_window": WINDOW, "head_dim": 8, "num_hidden_layers": 7}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama 2": ("Llama", {"num_key_value_heads": 4}),
    "Llama 3": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}),
    "Vicuna": ("Llama", {"num_key_value_heads": 4, "rms_norm_eps": 1e-6}),
    "Mistral": ("Mistral", {"sliding_window": None, "head_dim": 12}),
    "Mistral 0.1": ("Mistral", {"sliding_window": WINDOW}),
    "Qwen 2": ("Qwen2", {"sliding_window": WINDOW, "use_sliding_window": False}),
    "Qwen 2 with a window": (
        "Qwen2",
        {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    ),
    "Qwen 3": ("Qwen3", {"head_dim": 12}),
    "Mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "Gemma 3": ("Gemma3", {}),
    "Gemma 3 with images": ("Gemma3Image", {}),
    "Phi": ("Phi", {"num_key_value_heads": 4}),
    "Phi 3": ("Phi3", {}),
    "OLMo": ("Olmo", {"clip_qkv": 2.0}),
    "OLMo 2": ("Olmo2", {}),
    "OLMo 3": ("Olmo3", {"sliding_window": WINDOW}),
}
WINDOWED = {"Mistral 0.1", "Qwen 2 with a window", "Gemma 3", "Gemma 3 with images", "OLMo 3"}
CLOSE = {"atol": 1e-4, "rtol": 1e-4}

#   7 ─┬─ 8 ─┬─ 10
#      │     └─ 11 ── 12
#      └─ 9 ──── 13
TREE = DraftTree((7, 8, 9, 10, 11, 12, 13), (None, 0, 0, 1, 1, 4, 2), (0.0,) * 7)
PROMPT = [3, 14, 15, 92, 65, 35, 89, 79]


@cache
def target_of(family: str) -> HfTarget:
    torch.manual_seed(0)
    name, more = FAMILIES[family]
    return HfTarget(model_of(name, SIZES | more), name=family)


def model_of(name: str, sizes: dict[str, Any]) -> Any:
    if name == "Gemma3":
        config = transformers.Gemma3TextConfig(**(sizes | GEMMA3))
        return transformers.Gemma3ForCausalLM(config)
    if name == "Gemma3Image":
        eyes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
        eyes |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
        config = transformers.Gemma3Config(text_config=sizes | GEMMA3, vision_config=eyes)
        return transformers.Gemma3ForConditionalGeneration(config)
    config = getattr(transformers, f"{name}Config")(**sizes)
    return getattr(transformers, f"{name}ForCausalLM")(config)


def plain_logits(target: HfTarget, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = target.model(
            input_ids=torch.tensor([tokens]), use_cache=False
        ).logits
    return logits[0]


families = pytest.mark.parametrize("family", FAMILIES)


@families
def test_a_common_family_passes_the_probe(family: str) -> None:
    probe.check(target_of(family))
    assert probe.worst_difference(target_of(family)) < 1e-4


@families
def test_a_tree_reads_as_each_of_its_paths_before_and_after_a_commit(family: str) -> None:
    target, text = target_of(family), list(PROMPT)
    run = target.open()
    run.prefill(torch.tensor(text))
    for path in ((0, 1, 4), (0, 2)):
        logits = run.score_tree(TREE).logits
        for node in range(len(TREE)):
            alone = plain_logits(target, [*text, *TREE.tokens_on(TREE.path_to(node))])[-1]
            torch.testing.assert_close(logits[node], alone, **CLOSE)
        run.keep_path(path)
        text += TREE.tokens_on(path)


@families
def test_features_are_the_states_the_model_itself_gives(family: str) -> None:
    target = target_of(family)
    taps = (0, 2, target.spec.last_state)
    features = target.open().prefill(torch.tensor(PROMPT), taps=taps).features
    with torch.no_grad():
        states = target.model(
            input_ids=torch.tensor([PROMPT]), use_cache=False, output_hidden_states=True
        ).hidden_states
    theirs = torch.cat([states[tap][0] for tap in taps], dim=-1)
    torch.testing.assert_close(features, theirs, **CLOSE)


@families
def test_greedy_text_with_a_head_is_the_models_own_plain_text(family: str) -> None:
    target, length = target_of(family), 20
    options = RunOptions(max_new_tokens=length)
    own, text = [], list(PROMPT)
    for _ in range(length):
        own.append(int(plain_logits(target, text)[-1].argmax()))
        text.append(own[-1])
    plain = Plain(Decoding.open(target, options)).steps(PROMPT)
    drafter = eagle_drafter(target)  # type: ignore[arg-type]
    eagle = Engine(Decoding.open(target, options), drafter, plan=static_tree(8)).steps(PROMPT)
    assert [token for event in plain for token in event.committed] == own
    assert [token for event in eagle for token in event.committed] == own


@families
def test_a_text_may_fill_the_window_and_no_more(family: str) -> None:
    target = target_of(family)
    assert target.spec.max_positions == (WINDOW if family in WINDOWED else 96)
    text = torch.randint(97, (96,), generator=torch.Generator().manual_seed(1)).tolist()
    limit = target.spec.max_positions
    run = target.open()
    run.prefill(torch.tensor(text[: limit - 1]))
    last = run.score_tree(DraftTree.root_only(text[limit - 1])).logits[0]
    torch.testing.assert_close(last, plain_logits(target, text[:limit])[-1], **CLOSE)


OTHERS = {
    "Mamba": {"state_size": 4},
    "RecurrentGemma": {},
    "Qwen3Next": {"head_dim": 8, "num_experts": 2, "num_experts_per_tok": 1},
    "Lfm2": {"layer_types": ["conv", "full_attention", "conv"]},
    "Rwkv": {"attention_hidden_size": 32},
}


@pytest.mark.parametrize("name", OTHERS)
def test_recurrent_and_hybrid_models_are_refused_in_one_sentence(name: str) -> None:
    model = model_of(name, SIZES | OTHERS[name])
    with pytest.raises(TargetError, match=rf"^{name} cannot be decoded in trees: [^\n]*; try"):
        probe.check(HfTarget(model, name=name))


def test_a_model_that_names_no_longest_text_is_refused_in_one_sentence() -> None:
    with pytest.raises(TargetError, match=r"^x cannot be decoded in trees: its config names no"):
        max_positions(SimpleNamespace(), name="x")
