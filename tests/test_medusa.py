"""Medusa heads: drafts as by hand, lossless lanes, files, training, replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from benches import tiny_bench
from proofs import world
from safetensors.torch import load_file, save_file
from training_toys import (
    LENGTHS,
    D,
    ToyTarget,
    V,
    corpus_of,
    estimates_of,
    saved_corpus,
    stand_in_llama,
)

from eagle_core.compare import as_lane
from eagle_core.drafters.heads import LoadedHead, load_head, save_head
from eagle_core.drafters.medusa import MedusaConfig, MedusaDrafter, MedusaHead
from eagle_core.errors import HeadError
from eagle_core.options import RunOptions
from eagle_core.packed import pack_linears
from eagle_core.plans import chain, static_tree
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.targets.base import TargetRead
from eagle_core.training.__main__ import main
from eagle_core.training.batches import batch_of
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.features import compute_features
from eagle_core.workbench import Workbench

CONFIG = MedusaConfig(width=D, vocab_size=V, num_blocks=3, target="toy")
LAWS, CHANCE = LawMaker(RunOptions()), SeededChance(0)


def seeded_medusa(config: MedusaConfig = CONFIG) -> MedusaHead:
    head, draw = MedusaHead(config), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in head.parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw) / 3)
    return head


def block_by_hand(head: MedusaHead, block: int, feature: torch.Tensor) -> torch.Tensor:
    weights = head.state_dict()
    inner = weights[f"blocks.{block}.linear.weight"] @ feature
    inner = inner + weights[f"blocks.{block}.linear.bias"]
    return feature + inner / (1 + torch.exp(-inner))


def test_a_new_block_passes_the_feature_on_as_it_is() -> None:
    x = torch.randn(4, D, generator=torch.Generator().manual_seed(0))
    assert all(torch.equal(block(x), x) for block in MedusaHead(CONFIG).blocks)


def test_every_level_of_a_tree_is_its_blocks_law_and_the_last_block_ends_it() -> None:
    target, head = ToyTarget(), seeded_medusa()
    vocabulary = torch.arange(0, V, 3)
    unembedding = target.unembedding(vocabulary)
    drafter = MedusaDrafter(head, target.spec, unembedding=unembedding, vocabulary=vocabulary)
    tokens = torch.tensor([3, 8, 21, 5])
    read = target.prefill(tokens, taps=drafter.taps)
    drafter.begin(tokens, read)
    tree = drafter.grow_tree(7, plan=static_tree(25), laws=LAWS, chance=CHANCE)
    assert max(tree.depths) == 3
    for node in range(1, len(tree)):
        made = block_by_hand(head, tree.depths[node] - 1, read.features[-1])
        law = unembedding(made).log_softmax(-1)
        number = vocabulary.tolist().index(tree.tokens[node])
        assert tree.log_probs[node] == pytest.approx(float(law[number]), abs=1e-5)


def medusa_bench() -> Workbench:
    made = world(24)
    head = seeded_medusa(MedusaConfig(width=16, vocab_size=23, num_blocks=4))
    pack_linears(head)
    loaded = LoadedHead(head, vocabulary=None, folder=Path("toy"), taps=head.taps(3))
    bench = tiny_bench(made)
    return Workbench(
        target=bench.target,
        head=loaded,
        unembedding=bench.unembedding,
        text=bench.text,
        environment=bench.environment,
    )


@pytest.mark.parametrize("tree", ["chain:5", "tree:25"])
def test_a_lane_with_medusa_writes_what_plain_decoding_writes(tree: str) -> None:
    bench, options = medusa_bench(), RunOptions(max_new_tokens=40, tree=tree)
    tokens = bench.encode("why is the sky blue")
    plain = as_lane("plain", bench.plain(tokens, options))
    eagle = as_lane("eagle", bench.eagle(tokens, options))
    assert eagle.tokens == plain.tokens


def test_a_head_comes_back_from_its_folder_in_medusas_own_names(tmp_path: Path) -> None:
    head, spec = seeded_medusa(), ToyTarget().spec
    save_head(tmp_path, head, vocabulary=torch.tensor([1, 4]), dtype=torch.float32)
    loaded = load_head(tmp_path, spec=spec)
    assert isinstance(loaded.head, MedusaHead)
    assert loaded.head.config == CONFIG
    assert loaded.vocabulary is not None
    assert all(torch.equal(w, loaded.head.state_dict()[n]) for n, w in head.state_dict().items())
    config = json.loads((tmp_path / "config.json").read_text())
    for change in ({"medusa_num_layers": 2}, {"medusa_num_heads": 0}, {"extra": 1}):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(HeadError, match=r"Medusa config|num_blocks 0"):
            load_head(tmp_path, spec=spec)


def test_a_copy_of_the_targets_embedding_beside_the_blocks_is_named_and_refused(
    tmp_path: Path,
) -> None:
    target = ToyTarget()
    save_head(tmp_path, seeded_medusa(), dtype=torch.float32)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(weights | {"embed_tokens.weight": target.weight}, tmp_path / "model.safetensors")
    with pytest.raises(HeadError, match=r"also holds embed_tokens\.weight; expected"):
        load_head(tmp_path, spec=target.spec, embedding=target.embedding())


@torch.no_grad()
def test_a_step_of_training_is_what_the_drafter_guesses_from_so_many_rows_before(
    tmp_path: Path,
) -> None:
    target, corpus, head = ToyTarget(), corpus_of(LENGTHS), seeded_medusa()
    store = compute_features(corpus, target, tmp_path)
    batch = batch_of(corpus, store, [0, 2])
    steps = estimates_of(head, batch, target, num_steps=5)
    assert len(steps) == 3
    drafter = MedusaDrafter(head, target.spec, unembedding=target.unembedding())
    for place in range(batch.lengths[0] - 2):
        drafter.begin(batch.tokens, TargetRead(torch.zeros(1, V), batch.features[: place + 1]))
        root = int(batch.tokens[place])
        tree = drafter.grow_tree(root, plan=chain(3), laws=LAWS, chance=CHANCE)
        guesses = [int(target.unembedding()(steps[s][place + s]).argmax()) for s in range(3)]
        assert list(tree.tokens[1:]) == guesses


def test_training_lowers_the_loss_and_the_card_tells_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stand_in_llama(monkeypatch)
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    run = ["--run", str(tmp_path / "run"), "--head", str(tmp_path / "head"), "--steps", "40"]
    assert main(["features", *shared]) == 0
    budget = ["--learning-rate", "1e-2", "--log-every", "1", "--self-fed-steps", "2"]
    assert main(["train", *shared, *run, *budget, "--method", "medusa"]) == 0
    losses = [row["loss"] for row in RunFolder(tmp_path / "run").curve() if "loss" in row]
    assert sum(losses[-5:]) < sum(losses[:5])
    head = load_head(tmp_path / "head", spec=target.spec).head
    assert isinstance(head, MedusaHead)
    assert head.config.num_blocks == 3
    assert "3 residual blocks" in (tmp_path / "head" / "README.md").read_text()
