"""What a run may be asked for, checked once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import cast

from eagle_core.dynamic import DynamicPlan
from eagle_core.errors import OptionError
from eagle_core.plans import AUTO, DYNAMIC, OF_THIS_MACHINE, plan_named
from eagle_core.rules import FACTS, RULES, Rule
from eagle_core.text import is_broken

RULE_NAMES = ("auto", *RULES)
"""`auto` follows the temperature: greedy at 0, one-hot up to 0.3, without replacement above.
One-hot siblings match drawn ones where the target law is sharp and lose where it is flat. A dynamic
tree's siblings are one-hot at any temperature, and so is its rule."""

ONE_HOT_UP_TO = 0.3
MAX_NEW_TOKENS = 8_192
MIN_TEMPERATURE = 0.001  # below it, and above 0, logits divided by it would overflow
MAX_TEMPERATURE = 10.0
MAX_STOP_STRINGS = 16
MAX_STOP_LENGTH = 200
REPETITION_RANGE = (0.1, 10.0)
PENALTY_RANGE = (-2.0, 2.0)  # as OpenAI's API has it


@dataclass(frozen=True)
class RunOptions:
    """How to decode one prompt; raises `OptionError` for a value outside its range."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0 keeps all tokens
    seed: int = 0
    tree: str = AUTO  # or best, chain:N, tree:N, dynamic:N, ranks:…; see `plans.plan_named`
    rule: str = "auto"
    min_p: float = 0.0  # 0 keeps all tokens
    repetition_penalty: float = 1.0  # counts prompt and answer; 1 is none
    presence_penalty: float = 0.0  # these two count the answer alone; 0 is none
    frequency_penalty: float = 0.0
    stop: tuple[str, ...] = ()  # the answer ends before the first of these strings
    record_dropped: bool = False  # the trace has what dynamic trees drafted and did not keep

    def __post_init__(self) -> None:
        _check_whole("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        _check_number("temperature", self.temperature, 0.0, MAX_TEMPERATURE)
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise OptionError(
                f"temperature {self.temperature:g}", expected=f"0, or at least {MIN_TEMPERATURE:g}"
            )
        _check_number("top_p", self.top_p, 0.0, 1.0)
        if self.top_p == 0.0:
            raise OptionError("top_p 0", expected="above 0, up to 1", hint="1 to keep all tokens")
        _check_whole("top_k", self.top_k, 0, 2**31)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, *REPETITION_RANGE)
        _check_number("presence_penalty", self.presence_penalty, *PENALTY_RANGE)
        _check_number("frequency_penalty", self.frequency_penalty, *PENALTY_RANGE)
        _check_stop(self.stop)
        if self.tree not in OF_THIS_MACHINE:
            plan_named(self.tree, siblings="one_hot")
        _check_whole("seed", self.seed, 0, 2**63 - 1)
        if self.rule not in RULE_NAMES:
            raise OptionError(f"rule {self.rule!r:.40}", expected=f"one of {', '.join(RULE_NAMES)}")
        _check_rule(self.resolved_rule, self.temperature, self.tree)
        if not isinstance(self.record_dropped, bool):
            raise OptionError(f"record_dropped {self.record_dropped!r:.40}", expected="yes or no")

    @property
    def resolved_rule(self) -> Rule:
        """The rule that `auto` stands for at this temperature."""
        if self.rule != "auto":
            return cast("Rule", self.rule)
        if self.temperature == 0:
            return "greedy"
        is_one_hot = self.temperature <= ONE_HOT_UP_TO or self.tree.startswith(DYNAMIC)
        return "one_hot" if is_one_hot else "without_replacement"


OPTION_NAMES = tuple(field.name for field in fields(RunOptions))


def _check_rule(rule: Rule, temperature: float, tree: str) -> None:
    facts = FACTS[rule]
    if facts.is_sampled and temperature == 0:
        raise OptionError(f"rule {rule} at temperature 0", expected="rule greedy", hint="rule auto")
    if not facts.is_sampled and temperature > 0:
        raise OptionError(
            f"rule {rule} at temperature {temperature:g}",
            expected="temperature 0",
            hint="rule auto",
        )
    plan = None if tree in OF_THIS_MACHINE else plan_named(tree, siblings=facts.siblings)
    if isinstance(plan, DynamicPlan) and not (facts.any_tree or facts.siblings == "one_hot"):
        raise OptionError(
            f"rule {rule} with tree {tree}",
            expected="rule one_hot, since what was drawn must not be dropped for its value",
            hint="rule auto",
        )
    if facts.is_for_chains and plan is not None and not plan.is_chain:
        raise OptionError(f"rule {rule} with tree {tree}", expected="a chain", hint="tree chain:3")


def _check_stop(stop: object) -> None:
    if not isinstance(stop, tuple) or len(stop) > MAX_STOP_STRINGS:
        raise OptionError(f"stop {stop!r:.40}", expected=f"up to {MAX_STOP_STRINGS} strings")
    for string in stop:
        if not isinstance(string, str) or not 0 < len(string) <= MAX_STOP_LENGTH:
            raise OptionError(
                f"stop string {string!r:.40}", expected=f"1 to {MAX_STOP_LENGTH} characters"
            )
        if is_broken(string):
            raise OptionError("a stop string with broken characters", hint="typing it again")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name} {value!r:.40}", expected=f"a whole number from {low} to {high}")


def _check_number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return  # not-a-number compares false, so it never gets here
    raise OptionError(f"{name} {value!r:.40}", expected=f"a number from {low:g} to {high:g}")
