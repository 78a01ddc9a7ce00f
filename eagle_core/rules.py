"""The acceptance rules by name, and what each asks of a run.

Knows names and facts alone; `eagle_core.contests` and `eagle_core.block` do the accepting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from eagle_core.tree import SiblingKind

Rule = Literal[
    "greedy",
    "one_hot",
    "without_replacement",
    "iid",
    "block",
    "seeded",
    "lossy_typical",
]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True)
class RuleFacts:
    """siblings: how a drafter chooses children for this rule. any_tree: it judges others too.

    is_lossless: the text follows the target's law whatever is drafted.
    """

    siblings: SiblingKind
    any_tree: bool = False
    is_sampled: bool = True  # for temperatures above 0; else for temperature 0 alone
    is_lossless: bool = True
    is_for_chains: bool = False


FACTS: Mapping[Rule, RuleFacts] = {
    "greedy": RuleFacts("one_hot", any_tree=True, is_sampled=False),
    "one_hot": RuleFacts("one_hot"),
    "without_replacement": RuleFacts("without_replacement"),
    "iid": RuleFacts("iid"),
    "block": RuleFacts("iid", is_for_chains=True),
    "seeded": RuleFacts("without_replacement", any_tree=True),
    "lossy_typical": RuleFacts("one_hot", any_tree=True, is_lossless=False),
}

LOSSY = frozenset(rule for rule, facts in FACTS.items() if not facts.is_lossless)
