"""Any decoder-only transformers model as a target.

One pass reads the root and its whole draft tree: an ancestor-only mask, positions = cached rows
+ depth. Knows models, masks and positions. Knows nothing of drafters, acceptance or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import align_module_device  # type: ignore[import-untyped]  # ships no types

from eagle_core.errors import PromptError, TargetError
from eagle_core.packed import projection
from eagle_core.quantised import QuantisedLinear
from eagle_core.targets.base import Taps, TargetRead, TargetSpec
from eagle_core.targets.kv import KeyValueRows
from eagle_core.targets.masks import causal_bias, tree_bias

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.tree import DraftTree

PREFILL_ROWS = 512
"""Rows of one prefill pass, so that a long prompt needs no more memory than its cache."""


class HfTarget:
    """One loaded model behind the `Target` contract; freezes its weights.

    `loading.load_target` is the way to one that has been probed.
    """

    def __init__(self, model: Any, *, name: str, end_tokens: frozenset[int] = frozenset()) -> None:
        self.model = model.eval().requires_grad_(False)
        self.decoder = model.get_decoder()
        self.config = model.config.get_text_config()
        embed, unembed = model.get_input_embeddings(), model.get_output_embeddings()
        if unembed is None:
            raise TargetError(f"{name} has no unembedding", expected="a model that writes text")
        self.spec = TargetSpec(
            name=name,
            vocab_size=unembed.weight.shape[0],
            width=self.config.hidden_size,
            num_layers=self.config.num_hidden_layers,
            max_positions=max_positions(self.config, name=name),
            end_tokens=end_tokens | _end_tokens(model),
            dtype=embed.weight.dtype,
            device=working_device(embed),
            quantisation=getattr(unembed, "quantisation", None),
        )

    def embedding(self) -> Callable[[Tensor], Tensor]:
        embed: Callable[[Tensor], Tensor] = self.model.get_input_embeddings()
        return embed

    def unembedding(
        self, tokens: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Callable[[Tensor], Tensor]:
        if tokens is None and dtype is None:
            return self._whole_unembedding
        layer = self.model.get_output_embeddings()
        if isinstance(layer, QuantisedLinear):
            return self._shaped(_part(layer, tokens, dtype), self.spec.device)
        with align_module_device(layer):  # brings weights here that are kept elsewhere
            rows = slice(None) if tokens is None else tokens.to(layer.weight.device)
            weight = layer.weight[rows].to(dtype)
            bias = None if layer.bias is None else layer.bias[rows].to(dtype)
        return self._shaped(projection(weight, bias), weight.device)

    @cached_property
    def _whole_unembedding(self) -> Callable[[Tensor], Tensor]:
        layer = self.model.get_output_embeddings()
        if isinstance(layer, QuantisedLinear):
            return self._shaped(layer, self.spec.device)
        if layer.weight.is_meta:  # only its own forward can bring the weights here
            return self._shaped(layer, working_device(layer))
        return self._shaped(projection(layer.weight, layer.bias), layer.weight.device)

    def _shaped(
        self, project: Callable[[Tensor], Tensor], device: torch.device
    ) -> Callable[[Tensor], Tensor]:
        """Logits come back to where the features came from, wherever the weights are."""
        shape = logit_shaping(self.config)
        return lambda features: shape(project(features.to(device))).to(features.device)

    def open(self) -> HfRun:
        return HfRun(self)


class HfRun:
    """One lane over an `HfTarget`: its key/value rows and the tree that waits for its path."""

    def __init__(self, target: HfTarget) -> None:
        self._spec = target.spec
        self._decoder = target.decoder
        self._unembed = target.unembedding()
        self._rows: Any = KeyValueRows(target.spec.num_layers)
        self._num_pending = 0  # nodes of the tree scored last, until its path is kept

    @property
    def num_cached(self) -> int:
        return len(self._rows)

    @torch.no_grad()
    def prefill(self, tokens: Tensor, *, taps: Taps = ()) -> TargetRead:
        """As in the contract; reads `PREFILL_ROWS` tokens at a time.

        Raises PromptError for a prompt that is empty or fills the context.
        """
        assert self.num_cached == 0, "prefill reads into an empty cache"
        _check_length(len(tokens), self._spec.max_positions)
        states, features = tokens.new_empty(0), []
        for chunk in torch.split(tokens.to(self._spec.device), PREFILL_ROWS):
            positions = self.num_cached + torch.arange(len(chunk), device=chunk.device)
            bias = causal_bias(len(chunk), self.num_cached, dtype=self._spec.dtype)
            states, tapped = self._read(chunk, positions, bias=bias, taps=taps)
            self._rows.keep(range(len(chunk)))
            features.append(tapped)
        return TargetRead(logits=self._unembed(states[-1:]), features=torch.cat(features))

    @torch.no_grad()
    def score_tree(self, tree: DraftTree, *, taps: Taps = ()) -> TargetRead:
        deepest = self.num_cached + max(tree.depths)
        assert deepest < self._spec.max_positions, f"a tree down to position {deepest}"
        self._rows.rewind()
        device = self._spec.device
        bias = tree_bias(tree.parents, self.num_cached, dtype=self._spec.dtype)
        positions = torch.tensor(tree.depths, device=device) + self.num_cached
        tokens = torch.tensor(tree.tokens, device=device)
        states, features = self._read(tokens, positions, bias=bias, taps=taps)
        self._num_pending = len(tree)
        return TargetRead(logits=self._unembed(states), features=features)

    @torch.no_grad()
    def keep_path(self, path: Sequence[int]) -> None:
        assert all(0 <= node < self._num_pending for node in path), (
            f"path {tuple(path)} in a scored tree of {self._num_pending} nodes"
        )
        self._rows.keep(path)
        self._num_pending = 0

    def _read(
        self, tokens: Tensor, positions: Tensor, *, bias: Tensor, taps: Taps
    ) -> tuple[Tensor, Tensor]:
        """Post-norm states, (R, D), and tapped features, (R, K·D); rows stay provisional."""
        last = self._spec.last_state
        output = self._decoder(
            input_ids=tokens[None],
            position_ids=positions[None],
            attention_mask=bias.to(tokens.device)[None, None],
            output_hidden_states=any(tap != last for tap in taps),
            **self._rows.as_arguments(self._decoder),
        )
        states = output.last_hidden_state[0].to(tokens.device)
        if not taps:
            return states, states.new_empty(len(tokens), 0)
        # transformers puts the post-norm state at index L of hidden_states, where our tap L is
        tapped = [states if tap == last else output.hidden_states[tap][0] for tap in taps]
        return states, torch.cat([state.to(tokens.device) for state in tapped], dim=-1)


def _part(
    layer: QuantisedLinear, tokens: Tensor | None, dtype: torch.dtype | None
) -> Callable[[Tensor], Tensor]:
    """The layer for these tokens alone; in another dtype its weights as they are meant."""
    part = layer if tokens is None else layer.rows(tokens.to("cpu"))
    if dtype is None:
        return part.project()
    bias = None if part.bias is None else part.bias.to(dtype)
    return projection(part.weight.dequantised(dtype), bias)


def max_positions(config: Any, *, name: str) -> int:
    """How long a text may get: the context, or less where some layer sees less of it.

    Within its window a layer sees what full attention sees. Rows beyond it would have to be masked
    and dropped, which trees of rows do not do.
    """
    context: int | None = getattr(config, "max_position_embeddings", None)
    if context is None:
        raise TargetError(
            f"{name} cannot be decoded in trees: its config names no longest text",
            expected="a model with max_position_embeddings",
            hint="another model",
        )
    return min([context, *windows(config).values()])


def windows(config: Any) -> dict[str, int]:
    """Per kind of layer that sees only some of the text, how many tokens it sees."""
    kinds = getattr(config, "layer_types", None)
    sizes = {
        "sliding_attention": getattr(config, "sliding_window", None),
        "chunked_attention": getattr(config, "attention_chunk_size", None),
    }
    named = sizes if kinds is None else {kind: sizes.get(kind) for kind in kinds}
    return {kind: size for kind, size in named.items() if size is not None}


def working_device(module: Any) -> torch.device:
    """Where a module computes; its weights may be kept elsewhere until then."""
    hook = getattr(module, "_hf_hook", None)
    place = getattr(hook, "execution_device", None)
    return module.weight.device if place is None else torch.device(place)


def logit_shaping(config: Any) -> Callable[[Tensor], Tensor]:
    """What a family does to its logits after the last linear layer, named by its config."""
    scale = getattr(config, "logit_scale", None) or 1.0  # Cohere
    scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite
    cap = getattr(config, "final_logit_softcapping", None)  # Gemma 2
    if cap is not None:
        return lambda logits: torch.tanh(logits * scale / cap) * cap
    if scale != 1.0:
        return lambda logits: logits * scale
    return lambda logits: logits


def _end_tokens(model: Any) -> frozenset[int]:
    named = model.generation_config.eos_token_id
    if named is None:
        named = getattr(model.config.get_text_config(), "eos_token_id", None)
    ids = named if isinstance(named, list) else [named]
    return frozenset(token for token in ids if token is not None)


def _check_length(num_tokens: int, max_positions: int) -> None:
    if num_tokens == 0:
        raise PromptError("an empty prompt", expected="at least one token")
    if num_tokens >= max_positions:
        raise PromptError(
            f"a prompt of {num_tokens:,} tokens",
            expected=f"fewer than the {max_positions:,} of the target's context",
            hint="a shorter prompt",
        )
