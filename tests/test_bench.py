"""The benchmark on toys: questions, rows that resume, figures by hand, divergences."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
import torch
from made import chain_step, lane, prefill, step
from toys import TableTarget, hopeless_drafter, open_decoding, perfect_drafter
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.bench import __main__ as command
from eagle_core.bench.questions import Question, load_questions, spread
from eagle_core.bench.report import FORMULAS, Estimate, report, tau
from eagle_core.bench.rivals import Generate, LlamaCpp, RivalAnswer, open_rivals
from eagle_core.bench.run import (
    LaneFigures,
    Row,
    figures,
    read_rows,
    run_lane,
    run_question,
    run_questions,
)
from eagle_core.compare import Divergence, find_divergence
from eagle_core.cost import UNMEASURED
from eagle_core.engine import Engine
from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import plan_named
from eagle_core.trace import Environment, Event

# Questions.


def written(path: Path, *lines: object) -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(text), encoding="utf-8")
    return path


def test_questions_are_first_turns_with_names_and_categories(tmp_path: Path) -> None:
    path = written(
        tmp_path / "q.jsonl",
        {"question_id": 81, "category": "writing", "turns": ["one", "more"]},
        "",
        {"turns": ["two"]},
        '{"turns": ["line\u2028separator\x85"]}',
    )
    assert load_questions(path) == (
        Question("81", "writing", "one"),
        Question("3", "", "two"),
        Question("4", "", "line\u2028separator\x85"),
    )
    assert [question.prompt for question in load_questions(path, limit=1)] == ["one"]


@pytest.mark.parametrize(
    "line",
    [
        *("{", "5", "null", "[]", '"x"', "{}", '{"turns": []}', '{"turns": {}}'),
        *('{"turns": [5]}', '{"turns": [["x"]]}', '{"turns": null}', '{"turns": "why?"}'),
    ],
)
def test_a_line_that_is_no_question_is_named(line: str, tmp_path: Path) -> None:
    path = written(tmp_path / "q.jsonl", {"turns": ["fine"]}, line)
    with pytest.raises(OptionError, match=r"line 2 of .*q\.jsonl is no question"):
        load_questions(path)


def test_a_file_without_questions_or_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no question in"):
        load_questions(written(tmp_path / "empty.jsonl", "", "  "))
    with pytest.raises(OptionError, match="cannot be read"):
        load_questions(tmp_path / "missing.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="cannot be read"):
        load_questions(tmp_path / "bytes.jsonl")


def test_a_few_questions_are_spread_over_the_set() -> None:
    questions = [Question(str(i), "", "") for i in range(8)]
    assert [question.name for question in spread(questions, 4)] == ["0", "2", "4", "6"]
    assert [question.name for question in spread(questions, 3)] == ["0", "2", "5"]
    assert len(spread(questions, 8)) == len(spread(questions, 99)) == 8


# Figures of a lane.

EAGLE = lane(
    "eagle",
    prefill(ms=90.0),
    chain_step(5, 6, 7, kept=2, bonus=8, ms=(4.0, 60.0, 1.0)),
    chain_step(8, 6, 7, kept=0, bonus=9, ms=(6.0, 50.0, 3.0)),
)


def test_the_figures_of_a_lane_are_of_its_decode_phase() -> None:
    made = figures(EAGLE, wall_ms=126.5)
    assert made == LaneFigures(4, 2, 90.0, 10.0, 110.0, 4.0, 2.5, ((2, 1), (1, 1)), ((3, 2),))
    assert (made.decode_ms, made.tokens_per_s) == (126.5, 4 / 0.1265)


def test_a_lane_that_decoded_nothing_has_no_speed() -> None:
    assert figures(lane("eagle", prefill())).tokens_per_s == 0.0


def test_what_a_step_leaves_outside_its_own_clock_is_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second passes between any two looks at the clock; the prefill's is not counted."""
    seconds = iter(float(second) for second in range(100))
    monkeypatch.setattr("eagle_core.bench.run.time.perf_counter", lambda: next(seconds))
    assert run_lane("eagle", EAGLE.events).figures.host_ms == 2000.0 - 124.0


# Runs on toys.


class ToyBench:
    """A workbench over a table target; a prompt is a text of digits."""

    environment = Environment("table", "perfect", "CPU", "float64", 1)
    conditions: ClassVar[dict[str, str]] = {"head": "perfect"}
    profile = UNMEASURED

    def __init__(self, target: TableTarget | None = None) -> None:
        self.target = target or TableTarget(vocab_size=30, seed=1)
        self.ran: list[str] = []

    def encode(self, prompt: str) -> list[int]:
        return [int(letter) for letter in prompt]

    def plain(self, tokens: list[int], options: RunOptions) -> Iterator[Event]:
        events = Plain(open_decoding(self.target, options)).steps(tokens)
        return self._noting("plain", tokens, events)

    def eagle(self, tokens: list[int], options: RunOptions) -> Iterator[Event]:
        plan = plan_named(options.tree, siblings="one_hot")
        decoding = open_decoding(self.target, options)
        events = Engine(decoding, perfect_drafter(self.target), plan=plan).steps(tokens)
        return self._noting(options.tree, tokens, events)

    def _noting(self, name: str, tokens: list[int], events: Iterator[Event]) -> Iterator[Event]:
        self.ran.append(f"{tokens[-1]} {name}")
        yield from events


QUESTIONS = [Question("a", "math", "121"), Question("b", "art", "122"), Question("c", "art", "123")]
OPTIONS = [RunOptions(max_new_tokens=13, tree=tree) for tree in ("chain:3", "tree:8")]


def run(bench: ToyBench, **more: object) -> list[Row]:
    return list(run_questions(bench, QUESTIONS, OPTIONS, **more))  # type: ignore[arg-type]


def test_a_row_is_made_per_question_and_tree() -> None:
    rows = run(ToyBench())
    assert [(row.question, row.tree) for row in rows] == [
        *(("a", "chain:3"), ("a", "tree:8"), ("b", "chain:3"), ("b", "tree:8")),
        *(("c", "chain:3"), ("c", "tree:8")),
    ]
    first = rows[0]
    assert (first.category, first.temperature, first.divergence) == ("math", 0.0, None)
    assert (first.plain.num_tokens, first.plain.num_target_passes) == (12, 12)
    assert (first.eagle.num_tokens, first.eagle.num_target_passes) == (12, 3)
    assert first.eagle.accepted_by_depth == ((3, 3), (3, 3), (3, 3))


def test_plain_runs_once_a_question_and_lanes_take_turns_at_going_first() -> None:
    bench = ToyBench()
    run(bench)
    assert bench.ran == [
        *("1 plain", "1 chain:3", "1 tree:8"),
        *("2 chain:3", "2 tree:8", "2 plain"),
        *("3 tree:8", "3 plain", "3 chain:3"),
    ]


def test_rows_come_back_from_their_file_and_only_the_missing_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    first = run(ToyBench(), rows_file=path)
    assert read_rows(path) == first

    again = ToyBench()
    assert run(again, rows_file=path) == first
    assert again.ran == []

    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:3]) + "\n")  # as if stopped within question b
    rest = ToyBench()
    rows = run(rest, rows_file=path)
    assert rows[:3] == first[:3]
    assert [(row.question, row.tree) for row in rows] == [(r.question, r.tree) for r in first]
    assert sorted(rest.ran) == ["2 plain", "2 tree:8", "3 chain:3", "3 plain", "3 tree:8"]
    assert len(read_rows(path)) == 6


def test_rows_made_under_other_conditions_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = run(ToyBench(), rows_file=path)
    other = ToyBench()
    other.conditions = {"head": "another"}  # type: ignore[misc]

    assert [row.conditions for row in run(other, rows_file=path)] != [r.conditions for r in first]
    assert other.ran, "everything was run again"
    assert len(read_rows(path)) == 2 * len(first)


def test_a_line_that_a_kill_left_unfinished_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first = run(ToyBench(), rows_file=path)
    text = path.read_text()
    path.write_text(text[:-20])

    assert read_rows(path) == first[:-1]
    assert run(ToyBench(), rows_file=path)[:-1] == first[:-1]
    assert len(read_rows(path)) == len(first)


def test_a_run_left_early_keeps_the_rows_it_made(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = run_questions(ToyBench(), QUESTIONS, OPTIONS, rows_file=path)  # type: ignore[arg-type]
    kept = [next(rows), next(rows), next(rows)]
    rows.close()  # type: ignore[attr-defined]
    assert read_rows(path) == kept


@pytest.mark.parametrize("line", ["{", "5", "null", "[]", "{}", '{"plain": 1}', '"x"'])
def test_rows_that_cannot_be_read_are_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be read .*try another --rows file"):
        read_rows(written(tmp_path / "rows.jsonl", line, ""))


@pytest.mark.parametrize("changed", [{"plain": 5}, {"divergence": {"x": 1}}, {"new": 1}], ids=str)
def test_a_row_of_another_form_is_refused(changed: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    run(ToyBench(), rows_file=path)
    row = json.loads(path.read_text().splitlines()[0])
    with pytest.raises(OptionError, match="cannot be read"):
        read_rows(written(path, row | changed, ""))


def test_rows_that_cannot_be_written_end_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OptionError, match="cannot write to"):
        run(ToyBench(), rows_file=tmp_path / "file" / "rows.jsonl")
    assert read_rows(None) == read_rows(tmp_path / "missing.jsonl") == []


def test_sampled_texts_are_not_compared() -> None:
    sampled = replace(OPTIONS[0], temperature=0.3, rule="one_hot")
    (row,) = run_question(ToyBench(), QUESTIONS[0], [sampled])  # type: ignore[arg-type]
    assert row.divergence is None
    assert row.eagle.num_tokens == 12


# Divergences.


def test_equal_texts_do_not_diverge_and_ask_the_target_nothing() -> None:
    class Untouchable(TableTarget):
        def open(self) -> object:  # type: ignore[override]
            raise AssertionError("nothing to look up")

    same = lane("plain", prefill(5), step((5,), bonus=6))
    assert find_divergence(Untouchable(), (1, 2), same, replace(same, method="eagle")) is None


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_divergence_has_the_gap_of_the_two_best_logits_where_it_begins(position: int) -> None:
    target = TableTarget(vocab_size=30, seed=1)
    events = list(Plain(open_decoding(target, RunOptions(max_new_tokens=5))).steps((1, 2)))
    text = [token for event in events for token in event.committed]
    other = [*text[:position], 29 - text[position], *text[position + 1 :]]
    plain, eagle = (lane("x", *(prefill(token) for token in row)) for row in (text, other))

    found = find_divergence(target, (1, 2), plain, eagle)

    best, second = sorted(target.logits_after([1, 2, *text[:position]]).tolist())[:-3:-1]
    assert found is not None
    assert found.position == position
    assert found.logit_gap == pytest.approx(best - second, rel=1e-5)


def test_a_real_fault_is_found_and_not_called_numerics() -> None:
    """An "EAGLE" lane over another target."""
    target, other = TableTarget(vocab_size=30, seed=1), TableTarget(vocab_size=30, seed=2)

    class Faulty(ToyBench):
        def eagle(self, tokens: list[int], options: RunOptions) -> Iterator[Event]:
            plan = plan_named(options.tree, siblings="one_hot")
            decoding = open_decoding(other, options)
            return Engine(decoding, hopeless_drafter(other), plan=plan).steps(tokens)

    row, _ = run_question(Faulty(target), QUESTIONS[0], OPTIONS)  # type: ignore[arg-type]
    assert row.divergence is not None
    assert row.divergence.position == 0
    assert not row.divergence.is_numerics


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-3), (torch.bfloat16, 0.25), (torch.float16, 0.03), (torch.float64, 0.0)],
    ids=str,
)
def test_the_tolerance_follows_the_dtype(dtype: torch.dtype, tolerance: float) -> None:
    target = TableTarget(vocab_size=30, seed=1, dtype=dtype)
    found = find_divergence(target, (1,), lane("x", prefill(2)), lane("y", prefill(3)))
    assert found is not None
    assert found.tolerance == tolerance
    assert replace(found, logit_gap=tolerance).is_numerics is False
    assert replace(found, logit_gap=tolerance - 1e-9).is_numerics is True


# The report.


def made_row(
    question: str, *, plain_ms: float, eagle_ms: float, passes: int, **more: object
) -> Row:
    """Ten tokens in both lanes; the EAGLE lane in so many passes and milliseconds."""
    row = Row(
        conditions="",
        question=question,
        category="",
        tree="tree:8",
        temperature=0.0,
        plain=LaneFigures(10, 10, 50.0, 0.0, plain_ms, 0.0, 0.0, (), ()),
        eagle=LaneFigures(
            10,
            passes,
            50.0,
            0.2 * eagle_ms,
            0.7 * eagle_ms,
            0.08 * eagle_ms,
            0.02 * eagle_ms,
            ((passes, 3), (3, 1)),
            ((passes + 3, 4), (3, 0)),
        ),
        divergence=None,
    )
    return replace(row, **more)  # type: ignore[arg-type]


ROWS = [
    made_row("a", plain_ms=500.0, eagle_ms=250.0, passes=5),  # 20 and 40 tokens/s: 2.0
    made_row("b", plain_ms=500.0, eagle_ms=500.0, passes=4),  # 20 and 20: 1.0
    made_row("c", plain_ms=400.0, eagle_ms=250.0, passes=4),  # 25 and 40: 1.6
]


def test_every_figure_of_the_report_can_be_recounted() -> None:
    lines = report(ROWS).splitlines()
    # lane, T, questions, τ = 30 ÷ 13, median speeds and speedup, prefill, ms a pass, equal texts
    assert lines[1].split() == [
        *("tree:8", "0", "3", "2.31", "20.0", "40.00", "[20.00,", "40.00]"),
        *("1.60", "[1.00,", "2.00]", "50.0"),
        *(f"{1000 * share / 13:.2f}" for share in (0.2, 0.7, 0.08, 0.02)),
        *("3", "of", "3"),
    ]
    assert lines[2] == "  accepted by depth: 1: 69.2%  2: 33.3%"  # 9 of 13, 3 of 9
    assert lines[3] == "  accepted by child rank: 0: 54.5%  1: 0.0%"  # 12 of 22, 0 of 9
    assert lines[-1] == FORMULAS
    assert tau([row.eagle for row in ROWS]) == 30 / 13


def test_a_chains_acceptance_is_told_by_the_estimated_features_behind_it() -> None:
    assert "  n-α, n: 0: 69.2%  1: 33.3%" in report([replace(r, tree="chain:2") for r in ROWS])  # noqa: RUF001


def test_categories_are_told_apart_where_there_are_several() -> None:
    rows = [replace(row, category=name) for row, name in zip(ROWS, "xyx", strict=True)]
    assert "  speedup by category: x 1.80  y 1.00" in report(rows)
    assert "by category" not in report(ROWS)


def test_an_interval_holds_the_median_and_narrows_with_more_questions() -> None:
    draw = random.Random(1)
    few, many = ([draw.gauss(2.0, 0.5) for _ in range(count)] for count in (10, 400))
    wide, narrow = Estimate.of(few), Estimate.of(many)
    for made in (wide, narrow):
        assert made.low <= made.median <= made.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 2
    assert narrow.low < 2.0 < narrow.high
    assert Estimate.of(few) == wide, "the same values give the same interval"
    assert Estimate.of([3.0]) == Estimate(3.0, 3.0, 3.0)
    assert Estimate.of([]) == Estimate(0.0, 0.0, 0.0)


def test_settings_are_reported_apart_and_in_order() -> None:
    others = [replace(ROWS[0], tree="chain:3"), replace(ROWS[1], temperature=0.8)]
    lines = [line.split() for line in report([ROWS[2], *others]).splitlines()]
    assert [line[:3] for line in lines[1:9:3]] == [
        ["chain:3", "0", "1"],
        ["tree:8", "0", "1"],
        ["tree:8", "0.8", "1"],
    ]
    assert lines[7][-1] == "-", "sampled texts are not compared"


def test_every_unequal_text_is_listed_with_its_gap_and_verdict() -> None:
    near = replace(ROWS[0], divergence=Divergence(17, 0.0004, 1e-3))
    far = replace(ROWS[1], divergence=Divergence(3, 0.2, 1e-3))
    made = report([near, far, ROWS[2]])
    assert "1 of 3" in made
    assert (
        "question a: texts differ from token 17 on, top-2 logit gap 0.0004 "
        "(numerics: tolerance 0.001)" in made
    )
    assert (
        "question b: texts differ from token 3 on, top-2 logit gap 0.2 "
        "(NOT numerics: tolerance 0.001)" in made
    )


def test_a_question_that_decoded_nothing_spoils_no_median() -> None:
    nothing = LaneFigures(0, 0, 50.0, 0.0, 0.0, 0.0, 0.0, (), ())
    idle = replace(ROWS[0], plain=nothing, eagle=nothing)
    assert "1.60" in report([*ROWS, idle])
    assert "0.00" in report([idle])


# Rivals.


class ToyRival:
    """Answers with the target's own text, or with another."""

    def __init__(self, bench: ToyBench, *, is_right: bool = True) -> None:
        self.name = "right" if is_right else "wrong"
        self._bench, self._is_right = bench, is_right

    def answer(self, prompt: Sequence[int], *, max_new_tokens: int) -> RivalAnswer:
        self._bench.ran.append(f"{prompt[-1]} {self.name}")
        decoding = open_decoding(self._bench.target, RunOptions(max_new_tokens=max_new_tokens))
        text = [token for event in Plain(decoding).steps(prompt) for token in event.committed]
        if not self._is_right:
            text[3] = 29 - text[3]
        return RivalAnswer(tuple(text), prefill_ms=7.0, decode_ms=120.0)


def test_rivals_take_turns_with_our_lanes_and_resume_with_them(tmp_path: Path) -> None:
    path, bench = tmp_path / "rows.jsonl", ToyBench()
    rivals = [ToyRival(bench), ToyRival(bench, is_right=False)]
    rows = run(bench, rivals=rivals, rows_file=path)
    assert [row.tree for row in rows[:4]] == ["chain:3", "tree:8", "right", "wrong"]
    assert bench.ran[5:7] == ["2 chain:3", "2 tree:8"]
    right, wrong = rows[2], rows[3]
    assert (right.eagle.num_tokens, right.eagle.tokens_per_s) == (12, 100.0)
    assert (right.eagle.prefill_ms, right.eagle.num_target_passes) == (7.0, None)
    assert right.divergence is None
    assert wrong.divergence is not None
    assert wrong.divergence.position == 3

    again = ToyBench()
    assert run(again, rivals=[ToyRival(again), rivals[1]], rows_file=path) == rows
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:2]) + "\n")  # both rivals of the first question are missing
    assert run(again, rivals=[ToyRival(again)], rows_file=path)[2].tree == "right"
    assert again.ran[:2] == ["1 plain", "1 right"]


def test_a_rivals_passes_are_not_made_up() -> None:
    bench = ToyBench()
    rows = run(bench, rivals=[ToyRival(bench)])
    line = next(line for line in report(rows).splitlines() if line.startswith("right"))
    assert line.split()[3] == "-"
    assert line.split()[-7:] == ["-", "-", "-", "-", "3", "of", "3"]


def test_each_temperature_has_its_own_plain_lane_and_rivals_answer_at_zero() -> None:
    bench = ToyBench()
    options = [OPTIONS[0], replace(OPTIONS[0], temperature=0.2)]
    rows = list(run_questions(bench, QUESTIONS[:1], options, rivals=[ToyRival(bench)]))  # type: ignore[arg-type]
    assert [(row.tree, row.temperature) for row in rows] == [
        *(("chain:3", 0.0), ("right", 0.0), ("chain:3", 0.2)),
    ]
    assert bench.ran == ["1 plain", "1 chain:3", "1 right", "1 plain", "1 chain:3"]


def test_generate_of_a_real_model_is_timed_from_its_first_token() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96,
            eos_token_id=None,
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval()
    text = None
    for attention, cache, looked_up in [
        *(("sdpa", "dynamic", None), ("sdpa", "static", None), ("eager", "dynamic", None)),
        ("sdpa", "dynamic", 4),
    ]:
        rival = Generate(model, attention, cache, looked_up)
        answer = rival.answer([1, 2, 3, 1, 2], max_new_tokens=9)
        assert len(answer.tokens) == 9
        assert answer.prefill_ms > 0
        assert answer.decode_ms > 0
        assert text in (None, answer.tokens), "all of them decode greedily"
        text = answer.tokens
    assert rival.name == "prompt-lookup"


def fake_llama_cpp(answered: dict[str, Any]) -> Any:
    asked: list[dict[str, Any]] = []

    def answer(self: object, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return answered

    package = mock.MagicMock()
    package.Server = type("Server", (), {"__init__": mock.Mock(return_value=None)})
    package.Server.handle_completions = answer
    package.asked = asked
    return package


def test_llama_cpp_is_asked_greedily_for_this_very_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = {
        "timings": {"prompt_ms": 5.5, "predicted_ms": 40.0},
        "__verbose": {"tokens": [7, 8, 9]},
    }
    package = fake_llama_cpp(answered)
    monkeypatch.setitem(sys.modules, "xllamacpp", package)
    rival = LlamaCpp(Path("x.gguf"), threads=2)
    assert rival.answer([1, 2, 3], max_new_tokens=9) == RivalAnswer((7, 8, 9), 5.5, 40.0)
    (asked,) = package.asked
    assert (asked["prompt"], asked["n_predict"], asked["temperature"]) == ([1, 2, 3], 9, 0.0)
    assert asked["cache_prompt"] is False, "or its second answer would have no prefill"


def test_an_answer_of_llama_cpp_that_is_none_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", fake_llama_cpp({"error": "no room"}))
    with pytest.raises(OptionError, match=r"llama\.cpp answered .*no room"):
        LlamaCpp(Path("x.gguf"), threads=2).answer([1], max_new_tokens=9)


@pytest.mark.parametrize(
    ("families", "said"),
    [
        (["gpt"], "--against gpt; expected transformers, prompt-lookup, llama.cpp"),
        (["llama.cpp"], "without the package xllamacpp; try pip install -r requirements-bench"),
    ],
)
def test_a_rival_that_cannot_be_had_is_one_sentence(
    families: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(OptionError, match=re.escape(said)):
        open_rivals(
            families,
            source="none",
            dtype=torch.float32,
            device=torch.device("cpu"),
            gguf=lambda: Path("none.gguf"),
        )


# The command.


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    lines = [{"question_id": q.name, "turns": [q.prompt]} for q in QUESTIONS]
    return written(tmp_path / "questions.jsonl", *lines)


@pytest.mark.filterwarnings("ignore::tqdm.TqdmWarning")
def test_the_command_prints_the_report_of_all_trees(
    questions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = ToyBench()
    monkeypatch.setattr(command, "load_workbench", lambda options: bench)
    rows = tmp_path / "rows.jsonl"
    flags = ["--tree", "chain:3,tree:8", "--max-new-tokens", "9", "--count", "2"]
    assert command.main([str(questions), *flags, "--rows", str(rows)]) == 0
    out = capsys.readouterr().out
    assert report(read_rows(rows)) in out
    assert re.search(r"CPU, float64, 1 threads; peak memory [\d,]+ MiB", out)
    assert len(bench.ran) == 6


@pytest.mark.filterwarnings("ignore::tqdm.TqdmWarning")
def test_the_command_writes_its_figures_as_json(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_workbench", lambda options: ToyBench())
    file = tmp_path / "new" / "report.json"
    flags = ["--tree", "chain:3", "--max-new-tokens", "9", "--temperatures", "0.2,0"]
    assert command.main([str(questions), *flags, "--json", str(file)]) == 0
    made = json.loads(file.read_text())
    assert [(each["lane"], each["temperature"]) for each in made["lanes"]] == [
        *(("chain:3", 0.0), ("chain:3", 0.2)),
    ]
    assert made["lanes"][0]["tau"] == 4.0
    assert made["lanes"][0]["parts_ms"].keys() == {"draft", "verify", "commit", "host"}
    assert made["environment"]["device"] == "CPU"
    assert made["peak_bytes"] > 1 << 20
    assert command.main([str(questions), *flags, "--json", str(file / "x")]) == 1


def test_transformers_is_no_rival_of_a_quantised_target(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its weights would be others, and the race one between models."""
    bench = ToyBench()
    bench.target.spec = replace(bench.target.spec, quantisation="int8")
    monkeypatch.setattr(command, "load_workbench", lambda options: bench)
    flags = ["--dtype", "int8", "--against", "llama.cpp,transformers"]
    assert command.main([str(questions), *flags]) == 1
    assert "transformers beside int8 weights" in capsys.readouterr().err
    assert not bench.ran


@pytest.mark.parametrize(
    "flags", [["--count", "0"], ["--temperature", "-1"], ["--temperatures", "0,x"]]
)
def test_a_wrong_flag_of_the_command_ends_in_one_sentence(
    flags: list[str], questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(questions), *flags]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_ctrl_c_reports_the_rows_so_far_and_exits_130(
    questions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(ToyBench):
        def encode(self, prompt: str) -> list[int]:
            if prompt == "122":
                raise KeyboardInterrupt
            return super().encode(prompt)

    monkeypatch.setattr(command, "load_workbench", lambda options: Interrupted())
    assert command.main([str(questions), "--tree", "chain:3", "--max-new-tokens", "9"]) == 130
    assert re.search(r"chain:3 +0 +1 ", capsys.readouterr().out)
