"""Replay: a head over remembered greedy answers does what the engine does over the real target."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from benches import tiny_bench
from hypothesis import given
from hypothesis import strategies as st
from made import ENVIRONMENT, EXAMPLES
from proofs import (
    BUSHY,
    DEEP,
    PROMPT,
    World,
    law_of_one_step,
    planned,
    trees_of_one_step,
    with_positions,
    world,
)
from toys import Law, TableTarget, eagle_drafter, total_variation

from eagle_core.bench.replay import __main__ as command
from eagle_core.bench.replay.alphas import NUM_ALPHAS, alphas
from eagle_core.bench.replay.answers import Answer, AnswerStore
from eagle_core.bench.replay.figures import Ratio, Replay, ratios, report, to_json
from eagle_core.bench.replay.running import answers_to, joined, replay_answer, replay_lane
from eagle_core.bench.run import figures
from eagle_core.compare import as_lane
from eagle_core.drafters.eagle3 import Eagle3Config, Eagle3Head
from eagle_core.drafters.head import EagleHead
from eagle_core.drafters.heads import LoadedHead
from eagle_core.drafters.medusa import MedusaConfig, MedusaHead
from eagle_core.drafters.small import SmallConfig, SmallModel
from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.plans import chain
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.targets.hf import HfTarget
from eagle_core.tree import DraftTree
from eagle_core.workbench import Workbench

PROMPTS = ("why is the sky blue", "hello there", "tell me", "a")
NUM_NEW = 24
END = 7


def answered(bench: Workbench, prompt: str, num_new: int = NUM_NEW) -> tuple[Answer, torch.Tensor]:
    """The greedy answer, and the features along it in one pass."""
    tokens = bench.encode(prompt)
    options = RunOptions(max_new_tokens=num_new)
    answer = Answer(tuple(tokens), as_lane("plain", bench.plain(tokens, options)).tokens)
    read = bench.target.open().prefill(torch.tensor(answer.text[:-1]), taps=bench.head.taps)
    return answer, read.features


def said(lane: Any) -> list[object]:
    """All that a step says but its clock, its laws and its probabilities."""
    return [
        [(node.token, node.parent, node.verdict) for node in step.nodes]
        + [step.path, step.bonus, step.stop, step.notice]
        for step in lane.steps
    ]


@lru_cache
def exact_world(end_tokens: frozenset[int] = frozenset()) -> World:
    """Random weights that happen to agree often: up to three drafts of a chain are kept.

    In float64, where near-ties do not depend on how many rows a pass reads.
    """
    made = world(24)
    model = copy.deepcopy(made.target.model).double()
    target = HfTarget(model, name="tiny", end_tokens=end_tokens)
    return World(target, copy.deepcopy(made.head).double())


def toy_bench() -> Workbench:
    return tiny_bench(exact_world())


def short_bench() -> Workbench:
    """A head that stops following before the answers end."""
    made = exact_world()
    return tiny_bench(World(made.target, with_positions(made.head, 30).double()))


def ending_bench() -> Workbench:
    return tiny_bench(exact_world(frozenset({END})))


def trimmed_bench() -> Workbench:
    """A head that drafts all tokens but a few."""
    bench, vocabulary = toy_bench(), torch.tensor([t for t in range(23) if t % 5 != 3])
    head = replace(bench.head, vocabulary=vocabulary)
    return replace(bench, head=head, unembedding=bench.target.unembedding(vocabulary))


def sizes_of_layer(made: World) -> dict[str, Any]:
    """What every kind of head calls its layer's sizes."""
    own = ("fc_bias", "owns_unembedding", "inputs")
    return {name: size for name, size in asdict(made.head.config).items() if name not in own}


def eagle3_bench() -> Workbench:
    """A head over three states of the target, which feeds back what it estimates as it is."""
    made, vocabulary = exact_world(), torch.arange(22).flip(0)
    of_layer = sizes_of_layer(made)
    config = Eagle3Config(**of_layer, draft_vocab_size=22, feature_width=16, taps=(0, 1, 2))
    with torch.random.fork_rng():
        torch.manual_seed(4)
        head = Eagle3Head(config).double()
    loaded = LoadedHead(head, vocabulary=vocabulary, folder=Path("toy-3"), taps=config.taps)
    return replace(toy_bench(), head=loaded, unembedding=loaded.unembedding(pytest.fail))


BENCHES = {
    "eagle3": eagle3_bench,
    "whole": toy_bench,
    "short": short_bench,
    "ending": ending_bench,
    "trimmed": trimmed_bench,
}


@pytest.mark.parametrize("kind", BENCHES)
@pytest.mark.parametrize("tree", ["chain:5", "tree:25", "tree:8"])
def test_a_replay_equals_the_engine_step_by_step(kind: str, tree: str) -> None:
    bench, options = BENCHES[kind](), RunOptions(max_new_tokens=NUM_NEW, tree=tree)
    kept = set()
    for prompt in PROMPTS:
        answer, features = answered(bench, prompt)
        replayed = replay_lane(bench, answer, features, options)
        real = as_lane("eagle", bench.eagle(list(answer.prompt), options))
        assert said(replayed) == said(real)
        assert replayed.tokens == answer.tokens
        kept |= {step.num_accepted for step in real.steps}
    assert kept >= {0, 1, 2}, "the toy is meant to keep paths of several lengths"


@EXAMPLES
@given(st.text("abcdefgh", min_size=1, max_size=40), st.integers(1, 30), st.integers(1, 25))
def test_a_replay_equals_the_engine_for_any_prompt_length_and_tree(
    prompt: str, num_new: int, size: int
) -> None:
    bench, options = toy_bench(), RunOptions(max_new_tokens=num_new, tree=f"tree:{size}")
    answer, features = answered(bench, prompt, num_new)
    replayed = replay_lane(bench, answer, features, options)
    assert said(replayed) == said(as_lane("eagle", bench.eagle(list(answer.prompt), options)))


def grown_alphas(bench: Workbench, answer: Answer) -> list[tuple[int, int]]:
    """By the drafter itself: a chain from every place of the answer."""
    counts = [[0, 0] for _ in range(NUM_ALPHAS)]
    text = answer.text
    limit = bench.open_drafter().max_positions or len(text)
    for root in range(len(answer.prompt), min(len(text), limit) - 1):
        drafter, before = bench.open_drafter(), torch.tensor(text[:root])
        drafter.begin(before, bench.target.open().prefill(before, taps=drafter.taps))
        tree = drafter.grow_tree(
            text[root],
            plan=chain(min(NUM_ALPHAS, limit - root - 1)),
            laws=LawMaker(RunOptions()),
            chance=SeededChance(0),
        )
        for level, (draft, wanted) in enumerate(zip(tree.tokens[1:], text[root + 1 :])):  # noqa: B905
            counts[level][0] += 1
            if draft != wanted:
                break
            counts[level][1] += 1
    return [(counted, agreeing) for counted, agreeing in counts if counted]


def unshifted_bench() -> Workbench:
    """A head whose pairs hold the feature's own token."""
    made = exact_world()
    head = EagleHead(replace(made.head.config, inputs="feature+unshifted")).double()
    head.load_state_dict(made.head.state_dict())
    return tiny_bench(World(made.target, head))


def medusa_bench() -> Workbench:
    """Blocks that pass the feature on, but for a bias that moves their guesses apart."""
    made, head = exact_world(), MedusaHead(MedusaConfig(width=16, vocab_size=23, num_blocks=3))
    draw = torch.Generator().manual_seed(1)
    for weight in head.double().parameters():
        weight.data = torch.randn(weight.shape, generator=draw).double() / 2
    loaded = LoadedHead(head, vocabulary=None, folder=Path("toy-m"), taps=head.taps(3))
    return replace(toy_bench(), head=loaded, unembedding=made.target.unembedding())


def small_bench() -> Workbench:
    """A model that reads tokens alone, as wide as the head that it stands in for."""
    made = exact_world()
    config = SmallConfig(**sizes_of_layer(made) | {"num_layers": 2})
    torch.manual_seed(0)
    head = SmallModel(config).double()
    loaded = LoadedHead(head, vocabulary=None, folder=Path("toy-s"), taps=head.taps(3))
    return replace(toy_bench(), head=loaded, unembedding=made.target.unembedding())


MORE_BENCHES = {"unshifted": unshifted_bench, "medusa": medusa_bench, "small": small_bench}


@pytest.mark.parametrize("kind", [*BENCHES, *MORE_BENCHES])
def test_alphas_equal_growing_a_chain_at_every_place(kind: str) -> None:
    bench, deepest = (BENCHES | MORE_BENCHES)[kind](), 0
    for prompt in PROMPTS:
        answer, features = answered(bench, prompt, 60)
        found = alphas(bench, answer.text, features, num_prompt_tokens=len(answer.prompt))
        assert list(found) == grown_alphas(bench, answer)
        deepest = max(deepest, len(found))
    assert deepest > 1, "the toy is meant to agree sometimes"


@pytest.mark.parametrize("shape", [BUSHY, DEEP], ids=["bushy", "deep"])
@pytest.mark.parametrize("processors", [{}, {"top_k": 2}, {"top_p": 0.7}], ids=str)
def test_following_a_sampled_text_commits_what_the_one_hot_rule_commits(
    processors: dict[str, Any], shape: tuple[int | None, ...]
) -> None:
    """In law, over every draw and every coin of a step."""
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(temperature=1.0, rule="one_hot", **processors)
    plan = planned(shape, "one_hot")
    [tree] = trees_of_one_step(target, options, plan, eagle_drafter)
    followed: Law = defaultdict(float)
    texts = target.law_of_texts(PROMPT[:-1], plan.depth + 1, LawMaker(options), answer=PROMPT[-1:])
    for text, share in texts.items():
        followed[text[: num_drafted(tree, text) + 1]] += share
    walked = law_of_one_step(target, options, plan, eagle_drafter)
    assert total_variation(followed, walked) < 1e-9


def num_drafted(tree: DraftTree, text: Sequence[int]) -> int:
    """Tokens of the text that stand on a path of the tree below its root."""
    node = 0
    for num, token in enumerate(text):
        below = {tree.tokens[child]: child for child in tree.children[node]}
        if token not in below:
            return num
        node = below[token]
    return len(text)


# The store.


GREEDY = RunOptions(max_new_tokens=NUM_NEW)
SAMPLED = RunOptions(max_new_tokens=NUM_NEW, temperature=1.0)


def store(folder: Path, bench: Workbench, options: RunOptions = GREEDY) -> AnswerStore:
    return AnswerStore(folder, target=bench.target, options=options)


def filled(folder: Path, bench: Workbench, prompts: Sequence[str] = PROMPTS) -> list[Answer]:
    encoded = [bench.encode(prompt) for prompt in prompts]
    return list(answers_to(bench, encoded, store(folder, bench), options=GREEDY))


def untold(share: float) -> None:
    """Nobody watches."""


def test_answers_and_features_are_those_of_the_target_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = toy_bench()
    made = filled(tmp_path, bench)
    features = store(tmp_path, bench).features(bench.head.taps, told=untold)
    for prompt, answer in zip(PROMPTS, made, strict=True):
        expected, rows = answered(bench, prompt)
        assert answer == expected
        torch.testing.assert_close(features.along(answer), rows.float())
    monkeypatch.setattr(type(bench.target), "open", lambda self: pytest.fail("ran the target"))
    assert filled(tmp_path, bench) == made
    again = store(tmp_path, bench).features(bench.head.taps, told=untold)
    assert torch.equal(again.along(made[1]), features.along(made[1]))


@pytest.mark.parametrize("lost", range(1, 4000, 397))
def test_a_store_cut_anywhere_goes_on_to_the_same_rows(lost: int, tmp_path: Path) -> None:
    bench = toy_bench()
    made = filled(tmp_path, bench)
    store(tmp_path, bench).features((3,), told=untold)
    path = tmp_path / "features-3.f32"
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    store(tmp_path, bench).features((3,), told=untold)
    assert path.read_bytes() == whole
    answers = tmp_path / "answers.jsonl"
    answers.write_bytes(answers.read_bytes()[:-5])
    assert filled(tmp_path, bench) == made


def test_each_choice_of_taps_has_features_of_its_own(tmp_path: Path) -> None:
    bench = toy_bench()
    answer = filled(tmp_path, bench)[2]
    kept = store(tmp_path, bench)
    three = kept.features((0, 1, 3), told=untold).along(answer)
    one = kept.features((3,), told=untold).along(answer)
    assert three.shape == (answer.num_rows, 3 * one.shape[1])
    torch.testing.assert_close(three[:, -one.shape[1] :], one)


@pytest.mark.parametrize(
    ("seed", "options", "said"),
    [
        (5, GREEDY, "with weights"),
        (24, replace(GREEDY, max_new_tokens=7), f"with max_new_tokens {NUM_NEW}; expected 7"),
        (24, SAMPLED, r"with temperature 0\.0; expected 1\.0"),
    ],
)
def test_a_folder_of_other_answers_is_refused(
    seed: int, options: RunOptions, said: str, tmp_path: Path
) -> None:
    filled(tmp_path, toy_bench())
    bench = toy_bench() if seed == 24 else tiny_bench(world(seed))
    with pytest.raises(OptionError, match=said):
        store(tmp_path, bench, options)


@pytest.mark.parametrize("name", ["index.json", "answers.jsonl"])
@pytest.mark.parametrize("text", ["[]\n", "not json\n", '{"prompt": 3, "tokens": []}\n'])
def test_a_damaged_store_ends_in_one_sentence(name: str, text: str, tmp_path: Path) -> None:
    filled(tmp_path, toy_bench())
    (tmp_path / name).write_text(text)
    with pytest.raises(OptionError, match="another --answers folder"):
        store(tmp_path, toy_bench())


# Figures.


def test_an_interval_covers_its_value_and_narrows_with_more_questions() -> None:
    wholes, parts = (10, 20, 30, 40), (5, 4, 18, 30)
    few, many = Ratio(wholes, parts), Ratio(wholes * 25, parts * 25)
    assert few.value == many.value == 57 / 100
    for ratio in (few, many):
        low, high = ratio.interval
        assert low < ratio.value < high
    assert many.interval[1] - many.interval[0] < (few.interval[1] - few.interval[0]) / 3
    assert few.interval == Ratio(wholes, parts).interval


def test_an_interval_is_that_of_resampled_questions_not_of_single_tokens() -> None:
    alike, unlike = Ratio((100,) * 20, (50,) * 20), Ratio((100,) * 20, (0, 100) * 10)
    assert alike.interval == (0.5, 0.5)
    low, high = unlike.interval  # 0.5 ± 1.96 · 0.5 / √20
    assert (low, high) == pytest.approx((0.28, 0.72), abs=0.05)


def test_counts_are_added_place_by_place() -> None:
    first, second = ratios([[(4, 2), (2, 1)], [(6, 3)]])
    assert (first.wholes, first.parts) == ((4, 6), (2, 3))
    assert (second.wholes, second.parts) == ((2, 0), (1, 0))
    assert second.value == 0.5


def replayed(plans: Sequence[str] = ("chain:3", "tree:8")) -> Replay:
    bench = toy_bench()
    done = []
    for prompt in PROMPTS:
        answer, features = answered(bench, prompt)
        done.append(replay_answer(bench, answer, features, plans=plans, max_new_tokens=NUM_NEW))
    return joined(bench, done, questions="questions", temperature=0.0)


def test_the_figures_are_the_engines_own_over_all_questions() -> None:
    bench, found = toy_bench(), replayed()
    options = RunOptions(max_new_tokens=NUM_NEW, tree="tree:8")
    lanes = [figures(as_lane("eagle", bench.eagle(bench.encode(p), options))) for p in PROMPTS]
    tau = sum(lane.num_tokens for lane in lanes) / sum(lane.num_target_passes for lane in lanes)
    assert found.tau("tree:8").value == pytest.approx(tau)
    reached = [lane.accepted_by_depth[0] for lane in lanes]
    assert found.by_depth("tree:8")[0].value == sum(k for _, k in reached) / sum(
        n for n, _ in reached
    )
    assert found.num_tokens == NUM_NEW * len(PROMPTS)


def test_the_report_shows_every_plan_every_level_and_its_formula() -> None:
    found = replayed()
    text = report([found, replace(found, questions="others", temperature=0.7)])
    assert text.startswith(
        f"{ENVIRONMENT.target}, head {ENVIRONMENT.head}, float32\n\nquestions, T"
    )
    assert f"others, T = 0.7: 4 answers, {found.num_tokens} tokens, replayed" in text
    low, high = found.tau("chain:3").interval
    assert f"chain:3    τ {found.tau('chain:3').value:.2f} [{low:.2f}, {high:.2f}]" in text
    assert f"n-alpha    0: {ratios(found.alphas)[0].value:.1%} [" in text
    assert "τ = Σ (tokens - 1) ÷ Σ target passes" in text
    assert json.loads(json.dumps(found.to_json()))["plans"]["tree:8"]["tau"][0] > 1.0


# The command.


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    lines = [json.dumps({"question_id": n, "turns": [p]}) for n, p in enumerate(PROMPTS)]
    path.write_text("\n".join(lines))
    return path


def run(questions: Path, *more: str) -> int:
    flags = ["--answers", str(questions.parent / "answers"), "--max-new-tokens", str(NUM_NEW)]
    return command.main([*flags, str(questions), *more])


def test_the_command_replays_several_plans_and_writes_the_figures(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load_workbench", lambda options, **more: toy_bench())
    path = questions.parent / "figures.json"
    assert run(questions, "--tree", "chain:3,tree:8", "--json", str(path)) == 0
    assert capsys.readouterr().out == report([replayed()]) + "\n"
    assert json.loads(path.read_text()) == to_json([replayed()])


def test_several_sets_and_temperatures_are_kept_apart(
    questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_workbench", lambda options, **more: toy_bench())
    other, path = questions.with_name("other.jsonl"), questions.parent / "figures.json"
    other.write_text(json.dumps({"turns": ["another"]}))
    assert run(questions, str(other), "--temperatures", "1,0", "--json", str(path)) == 0
    found = json.loads(path.read_text())["replays"]
    asked = [(each["questions"], each["temperature"], each["num_questions"]) for each in found]
    assert asked == [("questions", 0, 4), ("other", 0, 1), ("questions", 1, 4), ("other", 1, 1)]
    kept = [sorted((questions.parent / "answers" / name).iterdir()) for name in ("t0", "t1")]
    assert kept[0][0].read_text() != kept[1][0].read_text()


def test_an_early_end_still_reports_what_was_replayed(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = command.replay_answer, [0]

    def stops_at_the_third(*args: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return real(*args, **more)

    monkeypatch.setattr(command, "load_workbench", lambda options, **more: toy_bench())
    monkeypatch.setattr(command, "replay_answer", stops_at_the_third)
    path = questions.parent / "figures.json"
    assert run(questions, "--json", str(path)) == 130
    assert "questions, T = 0: 2 answers" in capsys.readouterr().out
    assert not path.exists()


def test_two_sets_of_one_name_are_refused(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "load_workbench", lambda options, **more: pytest.fail("loaded"))
    assert run(questions, str(questions)) == 1
    assert "two sets of questions called questions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--count", "0"], "--count 0; expected at least 1"),
        (["--temperatures", "hot"], "--temperatures 'hot'; expected numbers"),
        (["--temperatures", "0,-1"], "temperature -1.0"),
        (["--tree", "chain:3,bush"], "tree 'bush'"),
        (["--tree", "auto"], "--tree auto; expected trees that are the same"),
        (["--max-new-tokens", "0"], "max_new_tokens 0"),
    ],
)
def test_a_wrong_flag_ends_in_one_sentence_before_anything_is_loaded(
    flags: list[str],
    said: str,
    questions: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "load_workbench", lambda options, **more: pytest.fail("loaded"))
    assert run(questions, *flags) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
