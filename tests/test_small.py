"""Small draft models: drafts as by hand, lossless lanes, files, objectives, on-policy training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from benches import tiny_bench
from proofs import world
from torch import Tensor
from training_toys import (
    LENGTHS,
    SIZES,
    ToyTarget,
    V,
    corpus_of,
    estimates_of,
    saved_corpus,
    stand_in_llama,
)
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.compare import as_lane
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.heads import LoadedHead, load_head, save_head
from eagle_core.drafters.small import SmallConfig, SmallModel
from eagle_core.errors import HeadError
from eagle_core.options import RunOptions
from eagle_core.packed import pack_linears
from eagle_core.plans import static_tree
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.training.__main__ import main
from eagle_core.training.batches import batch_of
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.features import compute_features
from eagle_core.training.feed import Feed, Portion, TrainingData
from eagle_core.training.objectives import (
    DIVERGENCES,
    OBJECTIVES,
    LossWeights,
    Objective,
    loss_of,
)
from eagle_core.training.on_policy import OnPolicy, Reading
from eagle_core.training.processes import Processes
from eagle_core.training.settings import TrainingSettings
from eagle_core.workbench import Workbench

CONFIG = SmallConfig(**SIZES, num_layers=3)
TOKENS = torch.tensor([3, 8, 21, 5, 30, 2])


def seeded_small(config: SmallConfig = CONFIG) -> SmallModel:
    torch.manual_seed(4)
    model = SmallModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape) / 8)
    return model.requires_grad_(False)


def states_by_hand(model: SmallModel, embeddings: Tensor) -> Tensor:
    """One pass over a whole text, without a cache."""
    return model.readable(model(embeddings, embeddings, positions=torch.arange(len(embeddings))))


def test_every_node_of_a_tree_has_the_law_that_its_own_text_gives() -> None:
    target, model = ToyTarget(), seeded_small()
    drafter = EagleDrafter(
        model, target.spec, embedding=target.embedding(), unembedding=target.unembedding()
    )
    read = target.prefill(TOKENS, taps=drafter.taps)
    drafter.begin(TOKENS, read)
    laws, chance = LawMaker(RunOptions()), SeededChance(0)
    tree = drafter.grow_tree(7, plan=static_tree(25), laws=laws, chance=chance)
    assert max(tree.depths) > 2
    for node in range(1, len(tree)):
        before = [*TOKENS.tolist(), *tree.tokens_on(tree.path_to(node))[:-1]]
        text = torch.tensor(before)[1:]  # a drafter's first pair begins with the second token
        logits = target.unembedding()(states_by_hand(model, target.weight[text])[-1])
        log_prob = float(logits.log_softmax(-1)[tree.tokens[node]])
        assert tree.log_probs[node] == pytest.approx(log_prob, abs=1e-5)


def small_bench() -> Workbench:
    bench = tiny_bench(world(24))
    model = seeded_small(replace(CONFIG, width=16, vocab_size=23, num_layers=2))
    pack_linears(model)
    head = LoadedHead(model, vocabulary=None, folder=Path("toy"), taps=model.taps(3))
    return replace(bench, head=head)


@pytest.mark.parametrize("tree", ["chain:5", "tree:25"])
def test_a_lane_with_a_small_model_writes_what_plain_decoding_writes(tree: str) -> None:
    bench, options = small_bench(), RunOptions(max_new_tokens=40, tree=tree)
    tokens = bench.encode("why is the sky blue")
    plain = as_lane("plain", bench.plain(tokens, options))
    assert as_lane("eagle", bench.eagle(tokens, options)).tokens == plain.tokens


def test_a_model_comes_back_from_its_folder(tmp_path: Path) -> None:
    model = seeded_small()
    save_head(tmp_path, model, vocabulary=torch.tensor([1, 4]), dtype=torch.float32)
    loaded = load_head(tmp_path, spec=ToyTarget().spec)
    assert isinstance(loaded.head, SmallModel)
    assert loaded.head.config == CONFIG
    assert loaded.vocabulary is not None
    assert all(torch.equal(w, loaded.head.state_dict()[n]) for n, w in model.state_dict().items())


@pytest.mark.parametrize("is_tied", [True, False])
def test_any_small_llama_of_the_same_vocabulary_drafts_as_transformers_has_it(
    tmp_path: Path, is_tied: bool
) -> None:
    torch.manual_seed(2)
    sizes: dict[str, Any] = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    llama = LlamaForCausalLM(
        LlamaConfig(vocab_size=V, tie_word_embeddings=is_tied, **sizes, **heads)
    ).eval()
    llama.save_pretrained(tmp_path)
    loaded = load_head(tmp_path, spec=ToyTarget().spec)
    model = loaded.head
    assert isinstance(model, SmallModel)
    assert model.embed_tokens is not None
    assert model.lm_head is not None
    with torch.no_grad():
        found = model.lm_head(states_by_hand(model, model.embed_tokens(TOKENS)))
        torch.testing.assert_close(found, llama(TOKENS[None]).logits[0], atol=1e-5, rtol=1e-4)


def test_a_narrower_model_without_rows_of_its_own_is_refused(tmp_path: Path) -> None:
    save_head(tmp_path, seeded_small(replace(CONFIG, width=8)), dtype=torch.float32)
    with pytest.raises(HeadError, match="width 8, without embed_tokens and lm_head; expected both"):
        load_head(tmp_path, spec=ToyTarget().spec)


@torch.no_grad()
def test_every_step_of_an_unroll_is_one_pass_over_each_text(tmp_path: Path) -> None:
    target, corpus, model = ToyTarget(), corpus_of(LENGTHS), seeded_small()
    batch = batch_of(corpus, compute_features(corpus, target, tmp_path), [0, 2])
    steps = estimates_of(model, batch, target, num_steps=2)
    alone = [
        model(rows, rows, positions=torch.arange(len(rows)))
        for rows in target.weight[batch.tokens].split(list(batch.lengths))
    ]
    for states in steps:
        torch.testing.assert_close(states, torch.cat(alone), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_divergence_has_the_gradient_that_autograd_finds_and_is_least_at_the_law(
    name: Objective,
) -> None:
    draw = torch.Generator().manual_seed(1)
    wanted, logits = (torch.randn(6, V, generator=draw).double() for _ in range(2))
    law, logits = wanted.softmax(-1), logits.requires_grad_()
    losses, gradient = DIVERGENCES[name](logits.detach(), law)
    draft = logits.softmax(-1)
    whole = {
        "forward_kl": -(law * draft.log()),
        "reverse_kl": draft * (draft / law).log(),
        "tvd": (draft - law).abs() / 2,
        "tokens": -(law * draft.log()),
    }[name].sum(-1)
    torch.testing.assert_close(losses, whole.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(whole.sum(), logits)[0])
    at_law, still = DIVERGENCES[name](wanted, law)
    assert (at_law < losses).all()
    assert still.abs().max() < 1e-6


def test_the_objective_of_tokens_is_plain_cross_entropy_over_tokens_that_can_be_drafted(
    tmp_path: Path,
) -> None:
    target, corpus, model = ToyTarget(), corpus_of(LENGTHS), seeded_small()
    batch = batch_of(corpus, compute_features(corpus, target, tmp_path), [0, 2, 4])
    vocabulary = torch.arange(0, V, 2)
    states = estimates_of(model, batch, target, num_steps=1, wanted=batch.counts)
    read = target.unembedding(vocabulary)
    loss = loss_of(
        states,
        batch,
        unembedding=read,
        weights=LossWeights(feature=0.0, token=1.0),
        objective="tokens",
        vocabulary=vocabulary,
    )
    follows = batch.follows[batch.counts]
    log_probs = read(states[0]).log_softmax(-1)
    rows = [-log_probs[i, t // 2] for i, t in enumerate(follows.tolist()) if t % 2 == 0]
    assert 0 < len(rows) < len(follows)
    assert float(loss.total) == pytest.approx(float(sum(rows)) / len(follows), rel=1e-4)


@torch.no_grad()
def test_texts_read_side_by_side_are_each_read_as_by_itself() -> None:
    target, model = ToyTarget(), seeded_small()
    prompts = [TOKENS, TOKENS[:3], TOKENS[2:]]
    more = torch.tensor([[9, 1], [4, 4], [7, 12]])
    reading = Reading(model, target.embedding(), prompts, room=2)
    states = [reading.prompts(), *(reading.token(column) for column in more.T)]
    for row, prompt in enumerate(prompts):
        whole = torch.cat([prompt, more[row]])[1:]
        rows = target.weight[whole]
        alone = model(rows, rows, positions=torch.arange(len(rows)))[-3:]
        together = torch.stack([each[row] for each in states])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_a_batch_on_policy_holds_what_the_model_wrote_and_the_target_makes_of_it() -> None:
    target, corpus, model = ToyTarget(), corpus_of(LENGTHS), seeded_small()
    vocabulary = torch.arange(0, V, 3)
    read = target.unembedding(vocabulary)
    author = OnPolicy(
        model, target, unembedding=lambda states: read(states) / 8, vocabulary=vocabulary
    )
    batch = author.batch(corpus, [0, 2, 5], chance=torch.Generator().manual_seed(0))
    again = author.batch(corpus, [0, 2, 5], chance=torch.Generator().manual_seed(0))
    assert batch is not None
    assert again is not None
    assert torch.equal(batch.tokens, again.tokens)
    written = batch.follows[batch.counts]
    assert set(written.tolist()) <= set(vocabulary.tolist())
    assert len(set(written.tolist())) > 3
    ends = torch.tensor(batch.lengths).cumsum(0).tolist()
    for conversation, (first, end) in zip([0, 2, 5], pairwise([0, *ends]), strict=True):
        own = torch.from_numpy(corpus.tokens[corpus.rows(conversation)].astype("int64"))
        prompt = own[: LENGTHS[conversation] // 2]
        text = torch.cat(
            [batch.own_tokens[first:end], batch.tokens[end - 1 : end], batch.follows[end - 1 : end]]
        )
        assert text[: len(prompt)].tolist() == prompt.tolist()
        assert len(text) <= LENGTHS[conversation]
        ended = (text[len(prompt) :] == 0).nonzero()
        assert not len(ended) or int(ended[0]) == len(text) - len(prompt) - 1
        expected = target.features(text)[1:-1]
        torch.testing.assert_close(batch.next_features[first:end], expected)


class Doubled(Processes):
    """As if another process had written the same."""

    def sum(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor *= 2


def test_a_step_on_policy_repeats_itself_and_counts_what_all_processes_wrote(
    tmp_path: Path,
) -> None:
    target, corpus, model = ToyTarget(), corpus_of(LENGTHS), seeded_small()
    store = compute_features(corpus, target, tmp_path)
    data = TrainingData(corpus, store, range(len(LENGTHS)), torch.arange(V))

    def portion(processes: Processes, step: int, share: float = 1.0) -> Portion:
        read = target.unembedding()
        return Feed(
            data,
            taps=(2,),
            settings=TrainingSettings(num_steps=9, on_policy_share=share),
            processes=processes,
            device=target.spec.device,
            author=OnPolicy(
                model, target, unembedding=lambda x: read(x) / 8, vocabulary=data.vocabulary
            ),
        ).portion((0, 2, 5), step=step)

    one, again, other = (portion(Processes(), step) for step in (4, 4, 5))
    assert one.batch is not None
    assert again.batch is not None
    assert other.batch is not None
    assert torch.equal(one.batch.tokens, again.batch.tokens)
    assert one.batch.tokens.tolist() != other.batch.tokens.tolist()
    assert [*one.num_rows] == [int(one.batch.counts.sum())]
    assert [*portion(Doubled(), 4).num_rows] == [2 * one.num_rows[0]]
    stored = batch_of(corpus, store, [0, 2, 5])
    off_policy = [
        found.num_pairs == stored.num_pairs
        and torch.equal(found.tokens.sort()[0], stored.tokens.sort()[0])
        for found in (portion(Processes(), step, 0.5).batch for step in range(40))
        if found is not None
    ]
    assert 8 < sum(off_policy) < 32


@pytest.mark.parametrize("objective", ["tokens", "forward_kl", "reverse_kl", "tvd"])
def test_training_on_policy_or_off_lowers_the_loss_and_the_card_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    target = stand_in_llama(monkeypatch)
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    assert main(["features", *shared, "--method", "small"]) == 0
    run = ["--run", str(tmp_path / "run"), "--head", str(tmp_path / "head"), "--steps", "30"]
    kind = ["--method", "small", "--layers", "2", "--objective", objective, "--log-every", "1"]
    share = "0" if objective == "tokens" else "1"
    how = ["--learning-rate", "1e-2", "--on-policy-share", share]
    assert main(["train", *shared, *run, *kind, *how]) == 0
    losses = [row["loss"] for row in RunFolder(tmp_path / "run").curve() if "loss" in row]
    assert sum(losses[-5:]) < sum(losses[:5])
    model = load_head(tmp_path / "head", spec=target.spec).head
    assert isinstance(model, SmallModel)
    assert model.config.num_layers == 2
    card = (tmp_path / "head" / "README.md").read_text()
    assert "# Small draft model for" in card
    assert ("sampled itself" in card) == (objective != "tokens")


def test_only_a_model_that_can_write_learns_on_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in_llama(monkeypatch)
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    assert main(["features", *shared]) == 0
    run = ["--run", str(tmp_path / "run"), "--steps", "3", "--on-policy-share", "0.5"]
    assert main(["train", *shared, *run, "--method", "eagle"]) == 1
    assert "--method small" in capsys.readouterr().err
