"""Options of a run: refused at birth, frozen after."""

from __future__ import annotations

import dataclasses
import math

import pytest

from eagle_core.errors import EagleError, OptionError
from eagle_core.options import RunOptions
from eagle_core.trace import Settings


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens 0; expected a whole number from 1 to"),
        ({"max_new_tokens": 10**9}, "max_new_tokens 1000000000"),
        ({"max_new_tokens": 2.0}, r"max_new_tokens 2\.0"),
        ({"max_new_tokens": True}, "max_new_tokens True"),
        ({"max_new_tokens": "9"}, "max_new_tokens '9'"),
        ({"temperature": -0.1}, r"temperature -0\.1; expected a number from 0 to 10"),
        ({"temperature": 11}, "temperature 11"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"temperature": math.inf}, "temperature inf"),
        ({"temperature": None}, "temperature None"),
        ({"temperature": True}, "temperature True"),
        ({"top_p": 0.0}, "top_p 0; expected above 0"),
        ({"top_p": 1.01}, r"top_p 1\.01"),
        ({"top_p": math.nan}, "top_p nan"),
        ({"top_k": -1}, "top_k -1"),
        ({"min_p": -0.1}, r"min_p -0\.1; expected a number from 0 to 1"),
        ({"min_p": "x"}, "min_p 'x'"),
        ({"repetition_penalty": 0}, r"repetition_penalty 0; expected a number from 0\.1 to 10"),
        ({"presence_penalty": 2.5}, r"presence_penalty 2\.5; expected a number from -2 to 2"),
        ({"frequency_penalty": math.nan}, "frequency_penalty nan"),
        ({"stop": ("",)}, "stop string ''; expected 1 to 200 characters"),
        ({"stop": ("x" * 201,)}, "stop string 'xxx"),
        ({"stop": ("x",) * 17}, r"stop \('x', .*; expected up to 16 strings"),
        ({"stop": "x"}, "stop 'x'"),
        ({"stop": (3,)}, "stop string 3"),
        ({"stop": ("a\ufffd",)}, "a stop string with broken characters"),
        ({"stop": ("\udcff",)}, "a stop string with broken characters"),
        ({"seed": -1}, "seed -1"),
        ({"seed": 2**63}, "seed 9223372036854775808"),
        ({"rule": "best"}, "rule 'best'; expected one of auto, greedy"),
        ({"rule": "greedy", "temperature": 0.5}, "rule greedy at temperature 0.5"),
        ({"rule": "one_hot"}, "rule one_hot at temperature 0; expected rule greedy; try rule auto"),
        ({"rule": "without_replacement"}, "rule without_replacement at temperature 0"),
        ({"rule": "seeded"}, "rule seeded at temperature 0"),
        ({"rule": "typical", "temperature": 1}, "rule 'typical'; expected one of .* lossy_typical"),
        (
            {"rule": "block", "temperature": 1, "tree": "tree:8"},
            "rule block with tree tree:8; expected a chain; try tree chain:3",
        ),
        ({"rule": "iid", "temperature": 1, "tree": "dynamic:9"}, "rule iid with tree dynamic:9"),
        ({"rule": "block", "temperature": 1, "tree": "dynamic:9"}, "must not be dropped for its"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_and_shown(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        RunOptions(**wrong)  # type: ignore[arg-type]


def test_a_very_long_wrong_value_is_shown_cut() -> None:
    with pytest.raises(OptionError) as caught:
        RunOptions(rule="x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("temperature", "rule", "resolved"),
    [
        (0.0, "auto", "greedy"),
        (0.3, "auto", "one_hot"),
        (0.300001, "auto", "without_replacement"),
        (1, "auto", "without_replacement"),
        (0.0, "greedy", "greedy"),
        (1.0, "one_hot", "one_hot"),
        (0.1, "without_replacement", "without_replacement"),
    ],
)
def test_auto_follows_the_temperature(temperature: float, rule: str, resolved: str) -> None:
    assert RunOptions(temperature=temperature, rule=rule).resolved_rule == resolved


@pytest.mark.parametrize(
    ("temperature", "rule", "resolved"),
    [
        (0.0, "auto", "greedy"),
        (1.0, "auto", "one_hot"),
        (1.0, "seeded", "seeded"),
        (1.0, "lossy_typical", "lossy_typical"),
    ],
)
def test_a_dynamic_tree_is_judged_by_a_rule_for_one_hot_siblings(
    temperature: float, rule: str, resolved: str
) -> None:
    options = RunOptions(temperature=temperature, rule=rule, tree="dynamic:9")
    assert options.resolved_rule == resolved


def test_what_depends_on_the_machine_fits_every_rule() -> None:
    for tree in ("auto", "best"):
        RunOptions(temperature=1.0, rule="block", tree=tree)
        RunOptions(tree=tree)


def test_the_ends_of_every_range_are_allowed() -> None:
    RunOptions(max_new_tokens=1, temperature=10, top_p=1, top_k=0, seed=0)
    RunOptions(max_new_tokens=8_192, top_p=1e-9, top_k=2**31, seed=2**63 - 1)


def test_settings_of_a_trace_are_the_options_of_its_run() -> None:
    assert [(f.name, f.type) for f in dataclasses.fields(Settings)] == [
        (f.name, f.type) for f in dataclasses.fields(RunOptions)
    ]


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunOptions().seed = 1  # type: ignore[misc]


def test_an_error_reads_as_got_expected_try() -> None:
    error = EagleError("a cat", expected="a dog", hint="the kennel")
    assert str(error) == "a cat; expected a dog; try the kennel"
    assert str(EagleError("a cat")) == "a cat"
