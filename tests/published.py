"""Heads written by hand in the layouts that others publish, around a tiny Llama.

`WRITERS` puts such a head into a folder and tells the naive side how to compute it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from naive_heads import NaiveHead
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.heads import LoadedHead
from eagle_core.options import RunOptions
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.targets.hf import HfTarget
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import Acceptance

V, D, L = 41, 24, 8
HEADS, KV_HEADS, HEAD_DIM, INNER = 4, 2, 10, 30  # head_dim is not D / HEADS
DRAFTED = [40, 0, 3, 7, 8, 11, 20, 21, 22, 35]  # d2t need not rise
PROMPT = [3, 14, 15, 9, 26, 5, 35]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}

#   root ─┬─ 1 ─┬─ 3 ── 6
#         │     └─ 4
#         └─ 2 ─── 5
PLAN = TreePlan((None, 0, 0, 1, 1, 2, 3))


@cache
def tiny_target() -> HfTarget:
    """Eight layers, so that the reference's taps are the states 2, 4 and 5."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=V,
        hidden_size=D,
        intermediate_size=32,
        num_hidden_layers=L,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    return HfTarget(LlamaForCausalLM(config), name="someone/tiny")


def random_tensors(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(len(shapes))

    def one(name: str, shape: tuple[int, ...]) -> Tensor:
        noise = torch.randn(shape, generator=draw)
        return 1 + noise / 4 if "norm" in name else noise / shape[-1] ** 0.5

    return {name: one(name, shape) for name, shape in shapes.items()}


def layer_shapes(in_width: int) -> dict[str, tuple[int, ...]]:
    return {
        "self_attn.q_proj.weight": (HEADS * HEAD_DIM, in_width),
        "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, in_width),
        "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, in_width),
        "self_attn.o_proj.weight": (D, HEADS * HEAD_DIM),
        "mlp.gate_proj.weight": (INNER, D),
        "mlp.up_proj.weight": (INNER, D),
        "mlp.down_proj.weight": (D, INNER),
        "post_attention_layernorm.weight": (D,),
    }


SIZES: dict[str, Any] = {
    "hidden_size": D,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": V,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 128,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


@dataclass(frozen=True)
class Written:
    """A head on disk and what the naive side needs to compute it."""

    naive: Callable[[HfTarget], NaiveHead]
    states: Callable[[tuple[Tensor, ...]], Tensor]  # the model's hidden_states → features


def last_state(states: tuple[Tensor, ...]) -> Tensor:
    return states[-1][0]  # transformers norms the last one


def three_states(*indices: int) -> Callable[[tuple[Tensor, ...]], Tensor]:
    return lambda states: torch.cat([states[index][0] for index in indices], dim=-1)


def write_eagle1(
    folder: Path,
    *,
    fc_bias: bool,
    qkv_bias: bool,
    prefix: str = "layers.0.",
    fc: str = "fc",
    inputs: str | None = None,
) -> Written:
    layer = layer_shapes(D)
    if qkv_bias:
        for name, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            layer[f"self_attn.{name}_proj.bias"] = (rows * HEAD_DIM,)
    tensors = random_tensors(layer)
    width = D if inputs in {"feature", "token"} else 2 * D
    outside = random_tensors({"fc.weight": (D, width)} | ({"fc.bias": (D,)} if fc_bias else {}))
    renamed = {name.replace("fc", fc): tensor for name, tensor in outside.items()}
    save_file(
        renamed | {prefix + name: tensor for name, tensor in tensors.items()},
        folder / "model.safetensors",
    )
    config = SIZES | {"num_hidden_layers": 1, "bias": False, "rope_scaling": None}
    if inputs is not None:
        config |= {"inputs": inputs}
    if fc == "fusion_fc":
        config = {
            "speculators_model_type": "eagle",
            "speculators_version": "0.1.0",
            "architectures": ["EagleSpeculator", "LlamaDecoderLayer"],
            "transformer_layer_architecture": "LlamaDecoderLayer",
            "transformer_layer_config": SIZES | {"num_hidden_layers": 1, "model_type": "llama"},
            "layernorms": False,
            "fusion_bias": fc_bias,
            "speculators_config": {"verifier": {"name_or_path": "other/Tiny"}},
        }
    (folder / "config.json").write_text(json.dumps(config))

    def naive(target: HfTarget) -> NaiveHead:
        weights = target.model.lm_head.weight
        embedding = target.model.model.embed_tokens.weight
        return NaiveHead(
            tensors, outside, SIZES, embedding, weights, inputs=inputs or "feature+token"
        )

    return Written(naive, last_state)


def write_eagle3(
    folder: Path,
    *,
    config: dict[str, Any],
    prefix: str = "midlayer.",
    owns_embedding: bool = False,
    num_drafted: int = len(DRAFTED),
    qk_norm: bool = False,
    states: tuple[int, ...] = (2, 4, 5),
    rope: dict[str, Any] | None = None,
) -> Written:
    layer = layer_shapes(2 * D) | {"hidden_norm.weight": (D,), "input_layernorm.weight": (D,)}
    if qk_norm:
        layer |= {f"self_attn.{name}_norm.weight": (HEAD_DIM,) for name in "qk"}
    around: dict[str, tuple[int, ...]] = {
        "fc.weight": (D, len(states) * D),
        "norm.weight": (D,),
        "lm_head.weight": (num_drafted, D),
    }
    if config.get("norm_before_fc"):
        around["input_norm.weight"] = (len(states) * D,)
    if owns_embedding:
        around["embed_tokens.weight"] = (V, D)
    tensors, outside = random_tensors(layer), random_tensors(around)
    drafted = torch.tensor(DRAFTED if num_drafted < V else range(V))
    maps = {"d2t": drafted - torch.arange(num_drafted), "t2d": torch.zeros(V, dtype=torch.bool)}
    maps["t2d"][drafted] = True
    save_file(
        outside | maps | {prefix + name: tensor for name, tensor in tensors.items()},
        folder / "model.safetensors",
    )
    (folder / "config.json").write_text(json.dumps(config))

    def naive(target: HfTarget) -> NaiveHead:
        embedding = outside.get("embed_tokens.weight", target.model.model.embed_tokens.weight)
        return NaiveHead(
            tensors,
            outside,
            SIZES,
            embedding,
            outside["lm_head.weight"],
            is_eagle3=True,
            norm_before_residual=bool(config.get("norm_before_residual")),
            rope=rope or {},
        )

    return Written(naive, three_states(*states))


def reference_config(**more: Any) -> dict[str, Any]:
    names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1}
    return SIZES | names | {"draft_vocab_size": len(DRAFTED), "hidden_act": "silu"} | more


def speculators_config(*, layer: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    nested = SIZES | {"num_hidden_layers": 1, "model_type": "llama"} | (layer or {})
    return {
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "architectures": ["Eagle3Speculator"],
        "transformer_layer_config": nested,
        "draft_vocab_size": len(DRAFTED),
        "target_hidden_size": D,
        "norm_before_residual": False,
        "norm_before_fc": False,
        "embed_requires_grad": False,
        "speculators_config": {
            "algorithm": "eagle3",
            "verifier": {"name_or_path": "someone/tiny", "architectures": ["LlamaForCausalLM"]},
        },
        **more,
    }


TAP_IDS = "eagle_aux_hidden_state_layer_ids"
WRITERS: dict[str, Callable[[Path], Written]] = {
    "eagle": lambda f: write_eagle1(f, fc_bias=True, qkv_bias=False),
    "eagle of Qwen 2, without fc bias": lambda f: write_eagle1(f, fc_bias=False, qkv_bias=True),
    "eagle in speculators": lambda f: write_eagle1(
        f, fc_bias=True, qkv_bias=False, prefix="transformer.", fc="fusion_fc"
    ),
    "eagle of features and tokens unshifted": lambda f: write_eagle1(
        f, fc_bias=True, qkv_bias=False, inputs="feature+unshifted"
    ),
    "eagle of features alone": lambda f: write_eagle1(
        f, fc_bias=True, qkv_bias=False, inputs="feature"
    ),
    "eagle of tokens alone": lambda f: write_eagle1(
        f, fc_bias=True, qkv_bias=False, inputs="token"
    ),
    "eagle3": lambda f: write_eagle3(f, config=reference_config()),
    "eagle3 with a draft vocabulary of all tokens": lambda f: write_eagle3(
        f, config=reference_config(draft_vocab_size=V), num_drafted=V
    ),
    "eagle3 with taps numbered as inputs": lambda f: write_eagle3(
        f, config=reference_config(**{TAP_IDS: [2, 3, 7]}), states=(2, 3, 7)
    ),
    "specforge with taps numbered as outputs and its own embedding": lambda f: write_eagle3(
        f,
        config=reference_config(
            architectures=["LlamaForCausalLMEagle3"],
            eagle_config={TAP_IDS: [1, 3, 6], "use_aux_hidden_state": True},
            norm_output=True,
        ),
        owns_embedding=True,
        states=(2, 4, 7),
    ),
    "specforge with stretched rotary positions": lambda f: write_eagle3(
        f, config=reference_config(rope_scaling=LLAMA3_ROPE), rope=LLAMA3_ROPE
    ),
    "speculators": lambda f: write_eagle3(f, config=speculators_config(), prefix="layers.0."),
    "speculators, normed before residual and fc": lambda f: write_eagle3(
        f,
        config=speculators_config(norm_before_residual=True, norm_before_fc=True),
        prefix="layers.0.",
    ),
    "speculators, Qwen 3 layer, four taps": lambda f: write_eagle3(
        f,
        config=speculators_config(layer={"model_type": "qwen3"}, **{TAP_IDS: [2, 4, 6, 7]}),
        prefix="layers.0.",
        qk_norm=True,
        states=(2, 4, 6, 7),
    ),
}


def open_drafter(loaded: LoadedHead, target: HfTarget, seen: list[Tensor]) -> EagleDrafter:
    """The product's drafter; `seen` gets the logits of every level, (R, V')."""
    unembedding = loaded.unembedding(target.unembedding)

    def noted(features: Tensor) -> Tensor:
        seen.append(unembedding(features))
        return seen[-1]

    return EagleDrafter(
        loaded.head,
        target.spec,
        embedding=loaded.embedding(target.embedding()),
        unembedding=noted,
        vocabulary=loaded.vocabulary,
    )


def features_of(target: HfTarget, written: Written, tokens: list[int]) -> Tensor:
    """(n, …), by the model's own plain forward."""
    with torch.no_grad():
        output = target.model(
            input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True
        )
    return written.states(output.hidden_states)


def worst_difference(target: HfTarget, written: Written, loaded: LoadedHead) -> float:
    """Between our logits and the naive ones, over all nodes of three steps' trees.

    The steps keep paths of one, three and two nodes, whatever the target thinks of them.
    """
    seen: list[Tensor] = []
    drafter, run, naive = open_drafter(loaded, target, seen), target.open(), written.naive(target)
    text, worst = list(PROMPT), 0.0
    drafter.begin(torch.tensor(text), run.prefill(torch.tensor(text), taps=drafter.taps))
    for path, root in (((0,), 6), ((0, 1, 3), 17), ((0, 2), 30)):
        seen.clear()
        tree = grow(drafter, root)
        features = features_of(target, written, text)
        inner = [node for node in range(len(tree)) if PLAN.children[node]]
        for node, ours in zip(inner, torch.cat(seen), strict=True):
            drafted = tree.tokens_on(tree.path_to(node))[1:]
            theirs = naive.logits([*text, root], features, drafted)
            worst = max(worst, float((ours.double() - theirs).abs().max()))
        read = run.score_tree(tree, taps=drafter.taps)
        run.keep_path(path)
        drafter.observe(Acceptance(tree, path, bonus=None, coins=(None,) * len(tree)), read)
        text += tree.tokens_on(path)
    return worst


def grow(drafter: EagleDrafter, root: int) -> DraftTree:
    laws, chance = LawMaker(RunOptions()), SeededChance(0)
    tree = drafter.grow_tree(root, plan=PLAN, laws=laws, chance=chance)
    assert tree.parents == PLAN.parents
    return tree


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change_tensors(folder: Path, **changes: Tensor | None) -> None:
    tensors = load_file(folder / "model.safetensors") | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors")
