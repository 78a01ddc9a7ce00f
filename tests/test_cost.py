"""The fastest tree: measured once, prompt by prompt, and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle_core.cost import CANDIDATES, DecodeCost, fastest_tree
from eagle_core.progress import no_progress

CONDITIONS = {"target": "toy", "threads": "2"}


class Measuring:
    """Costs by tree and prompt, and what was asked for."""

    def __init__(self, costs: dict[tuple[str, str], DecodeCost] | None = None) -> None:
        self._costs = costs or {}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, tree: str, prompt: str) -> DecodeCost:
        self.asked.append((tree, prompt))
        return self._costs.get((tree, prompt), DecodeCost(num_tokens=10, ms=1_000.0))


def find(
    measure: Measuring, store: Path, *, prompts: tuple[str, ...] = ("p", "q"), **more: str
) -> str:
    return fastest_tree(
        measure,
        prompts,
        conditions=CONDITIONS | more,
        store=store,
        progress=no_progress,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "fastest_tree.json"


@pytest.mark.parametrize("tree", CANDIDATES)
def test_the_tree_with_the_most_tokens_per_second_wins(tree: str, store: Path) -> None:
    quick = Measuring({(tree, "p"): DecodeCost(10, 900.0)})
    assert find(quick, store) == tree


def test_the_rate_is_over_all_prompts_and_no_mean_of_rates(store: Path) -> None:
    """chain:3 has 100/s and 5/s, so 11 tokens in 210 ms; tree:8 has 20 tokens in 360 ms."""
    costs = {(tree, prompt): DecodeCost(1, 900.0) for tree in CANDIDATES for prompt in "pq"}
    costs |= {
        ("chain:3", "p"): DecodeCost(10, 100.0),
        ("chain:3", "q"): DecodeCost(10, 2_000.0),
        ("tree:8", "p"): DecodeCost(10, 180.0),
        ("tree:8", "q"): DecodeCost(10, 180.0),
    }
    assert find(Measuring(costs), store) == "tree:8"
    (entry,) = json.loads(store.read_text()).values()
    assert entry["tokens_per_s"]["chain:3"] == pytest.approx(20 / 2.1, abs=1e-3)
    assert entry["conditions"] == CONDITIONS


def test_every_prompt_meets_all_candidates_before_the_next(store: Path) -> None:
    measure = Measuring()
    find(measure, store)
    assert measure.asked == [(tree, prompt) for prompt in "pq" for tree in CANDIDATES]


def test_a_second_start_measures_nothing(store: Path) -> None:
    find(Measuring({("tree:12", "p"): DecodeCost(10, 1.0)}), store)
    again = Measuring()
    assert find(again, store) == "tree:12"
    assert again.asked == []


def test_other_conditions_are_measured_for_themselves_and_both_are_kept(store: Path) -> None:
    find(Measuring({("tree:12", "p"): DecodeCost(10, 1.0)}), store)
    other = Measuring({("chain:3", "p"): DecodeCost(10, 1.0)})
    assert find(other, store, threads="8") == "chain:3"
    unasked = Measuring()
    assert find(unasked, store, threads="8") == "chain:3"
    assert find(unasked, store) == "tree:12"
    assert unasked.asked == []


@pytest.mark.parametrize("damage", ["", "{", "[]", "5", '"x"', "\x00"])
def test_a_damaged_store_is_measured_again_and_mended(damage: str, store: Path) -> None:
    store.parent.mkdir()
    store.write_text(damage)
    assert find(Measuring({("tree:25", "q"): DecodeCost(10, 1.0)}), store) == "tree:25"
    assert find(Measuring(), store) == "tree:25"


@pytest.mark.parametrize("entry", [None, 5, "tree:8", [], {}, {"fastest": "tree:99"}], ids=repr)
def test_a_damaged_entry_is_measured_again(entry: object, store: Path) -> None:
    find(Measuring(), store)
    (key,) = json.loads(store.read_text())
    store.write_text(json.dumps({key: entry}))
    measure = Measuring({("tree:8", "p"): DecodeCost(10, 1.0)})
    assert find(measure, store) == "tree:8"
    assert measure.asked


def test_without_a_place_to_keep_it_the_answer_is_still_given(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    measure = Measuring({("tree:8", "p"): DecodeCost(10, 1.0)})
    assert find(measure, tmp_path / "file" / "fastest_tree.json") == "tree:8"


def test_a_store_that_cannot_be_replaced_is_left_as_it_was(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(Measuring(), store)
    before = store.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert find(Measuring({("tree:8", "p"): DecodeCost(10, 1.0)}), store, threads="8") == "tree:8"
    assert store.read_text() == before
    assert [file.name for file in store.parent.iterdir()] == [store.name]


def test_what_measuring_raises_is_not_swallowed_and_keeps_nothing(store: Path) -> None:
    def broken(tree: str, prompt: str) -> DecodeCost:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fastest_tree(broken, ["p"], conditions={}, store=store, progress=no_progress)
    assert not store.exists()


def test_progress_rises_from_nothing_and_says_what_is_done(store: Path) -> None:
    told: list[tuple[str, float | None]] = []
    fastest_tree(
        Measuring(),
        ["p", "q"],
        conditions={},
        store=store,
        progress=lambda what, fraction: told.append((what, fraction)),
    )
    assert {what for what, _ in told} == {"measuring which draft tree is fastest here, once"}
    assert [fraction for _, fraction in told] == [index / 8 for index in range(8)]


def test_a_run_that_decoded_nothing_never_wins(store: Path) -> None:
    idle = {(tree, p): DecodeCost(0, 0.0) for tree in CANDIDATES for p in "pq"}
    del idle["tree:12", "q"]
    assert find(Measuring(idle), store) == "tree:12"
