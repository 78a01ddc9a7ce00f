"""One model over several devices: what a machine without a GPU can show of it.

Pretend tensors know their device and no numbers, and refuse to meet a tensor of another device; so
a pass over two of them proves that everything travels. Weights kept on disk prove the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from accelerate.utils import send_to_device
from tokenizers import Tokenizer, models
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.eagle3 import Eagle3Config, Eagle3Head
from eagle_core.targets.base import TargetRead
from eagle_core.targets.hf import HfTarget
from eagle_core.targets.loading import load_target
from eagle_core.tree import DraftTree

CONFIG = LlamaConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=96,
    initializer_range=0.3,
)
FIRST, SECOND = torch.device("cpu"), torch.device("meta")
PROMPT = torch.tensor([3, 14, 15, 92])
NUMBERS = PROMPT.numpy()  # a pretend tensor has no numbers to make a list of
TREE = DraftTree((7, 8, 9, 10), (None, 0, 0, 1), (0.0,) * 4)


class Travel(ModelHook):  # type: ignore[misc]
    """What accelerate does for a module of a device: inputs are brought to it."""

    def __init__(self, device: torch.device) -> None:
        self.execution_device = device

    def pre_forward(self, module: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        device = self.execution_device
        return send_to_device(args, device), send_to_device(kwargs, device)


def put(module: nn.Module, device: torch.device) -> nn.Module:
    """As `module.to(device)`, which pretend weights do not support."""
    for part in module.modules():
        for name, weight in list(part.named_parameters(recurse=False)):
            setattr(part, name, nn.Parameter(weight.detach().to(device)))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, buffer.to(device))
    return module


@pytest.fixture
def spread() -> Iterator[HfTarget]:
    """The first layer and the embedding on one device, everything after them on another."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = LlamaForCausalLM._from_config(CONFIG, dtype=torch.bfloat16)
        decoder = model.model
        on_first = [decoder.embed_tokens, decoder.rotary_emb, decoder.layers[0]]
        for module in on_first:
            add_hook_to_module(put(module, FIRST), Travel(FIRST))
        for module in [*decoder.layers[1:], decoder.norm, model.lm_head]:
            add_hook_to_module(put(module, SECOND), Travel(SECOND))
        yield HfTarget(model, name="spread")


def test_what_leaves_a_spread_target_is_on_its_first_device(spread: HfTarget) -> None:
    assert spread.spec.device == FIRST
    run = spread.open()
    for read in (
        run.prefill(PROMPT, taps=(1, 2, 3)),
        run.score_tree(TREE, taps=(1, 2, 3)),
    ):
        assert (read.logits.device, read.features.device) == (FIRST, FIRST)
    features = torch.zeros(2, 32, device=FIRST)
    assert spread.unembedding()(features).device == FIRST
    assert spread.unembedding(torch.tensor([4, 5]))(features).shape == (2, 2)


def test_rows_are_kept_where_their_layer_lives(spread: HfTarget) -> None:
    run = spread.open()
    run.prefill(PROMPT)
    run.score_tree(TREE)
    run.keep_path((0, 2))
    assert run.num_cached == 6
    assert run.score_tree(TREE).logits.shape == (4, 97)
    assert [layer.keys.device for layer in run._rows._layers] == [FIRST, SECOND, SECOND]


def test_features_travel_to_a_head_that_lives_elsewhere(spread: HfTarget) -> None:
    """The drafter takes features from any device to its head's, the target's first."""
    config = Eagle3Config(
        width=32,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        intermediate_size=48,
        vocab_size=97,
        draft_vocab_size=97,
        feature_width=32,
        taps=(0, 1, 2),
    )
    head = Eagle3Head(config)
    put(head, FIRST)
    assert head.lm_head is not None
    drafter = EagleDrafter(
        head, spread.spec, embedding=spread.embedding(), unembedding=head.lm_head
    )
    elsewhere = torch.zeros(4, 96, device=SECOND)
    read = TargetRead(logits=torch.zeros(1, 97), features=elsewhere)
    drafter.begin(NUMBERS, read)  # type: ignore[arg-type]
    assert drafter._cache.num_rows == 3
    assert drafter._cache.layers[0].keys.device == FIRST


def test_pretend_tensors_do_refuse_to_meet_across_devices() -> None:
    with FakeTensorMode(), pytest.raises(RuntimeError, match="on the same device"):
        torch.zeros(2, device=FIRST) + torch.zeros(2, device=SECOND)


def test_weights_kept_on_disk_give_the_same_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    LlamaForCausalLM(CONFIG).save_pretrained(tmp_path)
    words = {f"w{number}": number for number in range(97)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))  # type: ignore[call-arg]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    places: dict[str, str | int] = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "disk"}
    places |= {"model.norm": "disk", "lm_head": "disk"}

    whole = load_target(tmp_path, device="cpu")
    parted = load_target(tmp_path, device="cpu", device_map=places)

    assert next(parted.model.model.layers[1].parameters()).is_meta, "it is not in memory"
    assert parted.spec == whole.spec
    for taps in ((), (1, 3)):
        reads = []
        for target in (whole, parted):
            run = target.open()
            run.prefill(PROMPT)
            run.score_tree(TREE)
            run.keep_path((0, 2))
            reads.append(run.score_tree(TREE, taps=taps))
        torch.testing.assert_close(reads[1].logits, reads[0].logits)
        torch.testing.assert_close(reads[1].features, reads[0].features)
    features, some = torch.randn(2, 32), torch.tensor([5, 90])
    expected = whole.unembedding()(features)
    torch.testing.assert_close(parted.unembedding()(features), expected)
    torch.testing.assert_close(parted.unembedding(some)(features), expected[:, some])
