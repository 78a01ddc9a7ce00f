"""A bench that races without a model: events of the right shape, for tests of the page only.

Everything is drawn from a seed. At temperature 0 both lanes write the same made-up text.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from eagle_core.options import RunOptions
from eagle_core.plans import plan_named
from eagle_core.trace import (
    Candidate,
    Dropped,
    Environment,
    Event,
    Lane,
    Node,
    NodeLaws,
    Prefill,
    Settings,
    Step,
    StopReason,
    TopLaw,
    Trace,
    Turn,
    Verdict,
)
from eagle_core.tree import TreePlan, children_of

TEXT = (
    " the| a| of| light|house| keeper| found|,|.|\n| and| sea| was| in| letter| bottle| to| he|"
    " read| it| old|ing| that| with| storm| night| stones| him| quiet|\n\n| said| for| into"
)
WORDS = TEXT.split("|")


@dataclass(frozen=True)
class FakeMoment:
    method: str
    event: Event
    texts: tuple[str, ...]
    pieces: dict[int, str]


class FakeBench:
    """`pace` is real seconds slept per engine second; `words` is the whole vocabulary."""

    profile = None
    environment = Environment(
        target="fake-target",
        head="fake-head",
        device="cpu",
        dtype="float32",
        threads=2,
        versions={"torch": "0"},
    )

    def __init__(self, *, pace: float = 0.0, words: list[str] | None = None) -> None:
        self.pace = pace
        self.words = words or WORDS
        self.num_open = 0

    def with_head(self, name: str) -> FakeBench:
        other = FakeBench(pace=self.pace, words=self.words)
        other.environment = replace(self.environment, head=name)
        return other

    def race(
        self, prompt: str, options: RunOptions, *, earlier: Sequence[Turn] = ()
    ) -> FakeRecording:
        return FakeRecording(self, prompt, options, tuple(earlier))


class FakeRecording:
    def __init__(
        self, bench: FakeBench, prompt: str, options: RunOptions, earlier: tuple[Turn, ...]
    ) -> None:
        self._bench = bench
        self._prompt = prompt
        self._earlier = earlier
        self._options = options
        self._random = random.Random(options.seed)
        self._random_of_laws = random.Random(options.seed)  # they change nothing else
        is_fixed = options.tree.startswith(("chain:", "tree:", "ranks:"))
        tree = options.tree if is_fixed else "tree:12"
        self._plan = plan_named(tree, siblings="one_hot")
        used = replace(options, tree=tree, rule=options.resolved_rule)
        self.settings = Settings(**asdict(used))
        self._text = [
            self._random.randrange(len(bench.words)) for _ in range(options.max_new_tokens)
        ]
        self._events: dict[str, list[Event]] = {"plain": [], "eagle": []}

    def __iter__(self) -> Iterator[FakeMoment]:
        self._bench.num_open += 1
        try:
            yield from self._moments()
        finally:
            self._bench.num_open -= 1

    def _moments(self) -> Iterator[FakeMoment]:
        lanes = {"plain": self._plain(), "eagle": self._eagle()}
        clocks = dict.fromkeys(lanes, 0.0)
        seen: set[int] = set()
        while lanes:
            method = min(lanes, key=lambda name: clocks[name])
            event = next(lanes[method], None)
            if event is None:
                del lanes[method]
                continue
            clocks[method] += event.ms
            time.sleep(self._bench.pace * event.ms / 1000)
            self._events[method].append(event)
            new = {*event.committed, *(n.token for n in getattr(event, "nodes", ()))} - seen
            seen |= new
            pieces = {token: self._bench.words[token] for token in sorted(new)}
            yield FakeMoment(method, event, self._texts(event), pieces)

    def trace(self, *, stopped: bool = False) -> Trace:
        lanes = tuple(
            Lane(method, tuple(events), tuple(self._texts(event) for event in events))
            for method, events in self._events.items()
        )
        return Trace(
            prompt=self._prompt,
            settings=self.settings,
            environment=self._bench.environment,
            lanes=lanes,
            pieces=dict(enumerate(self._bench.words)),
            created="2026-01-01T00:00:00+00:00",
            earlier=self._earlier,
        )

    def _texts(self, event: Event) -> tuple[str, ...]:
        return tuple(self._bench.words[token] for token in event.committed)

    def _plain(self) -> Iterator[Event]:
        yield Prefill(num_prompt_tokens=21, token=self._text[0], prefill_ms=120.0)
        for place in range(1, len(self._text)):
            root = Node(token=self._text[place - 1], parent=None, verdict=Verdict.ROOT)
            stop = StopReason.MAX_NEW_TOKENS if place == len(self._text) - 1 else None
            ms = 40 + 4 * self._random.random()
            yield Step((root,), (0,), self._text[place], 0.0, ms, 0.3, stop)

    def _eagle(self) -> Iterator[Event]:
        yield Prefill(num_prompt_tokens=21, token=self._text[0], prefill_ms=125.0)
        done = 1
        while done < len(self._text):
            step = self._step(done)
            done += step.num_committed
            yield step

    def _step(self, done: int) -> Step:
        left = len(self._text) - done
        wanted = min(self._random.choice((0, 1, 1, 2, 2, 3, 4)), left)
        nodes, path = self._scored(done, wanted)
        wanted = len(path) - 1
        bonus = self._text[done + wanted] if wanted < left else None
        is_last = wanted + (bonus is not None) == left
        stop = StopReason.MAX_NEW_TOKENS if is_last else None
        draft_ms = 3.5 * self._plan.depth + self._random.random()
        verify_ms = 52 + 6 * self._random.random()
        laws = tuple(self._laws(node, nodes) for node in path)
        dropped = self._dropped(len(nodes)) if self._options.record_dropped else None
        return Step(nodes, path, bonus, draft_ms, verify_ms, 1.4, stop, laws=laws, dropped=dropped)

    def _dropped(self, num_nodes: int) -> Dropped:
        """Two more children for every node of the tree, and a child of the first of all these."""
        parents = [*(node for node in range(num_nodes) for _ in "12"), num_nodes]
        chance = self._random_of_laws
        candidates = (
            Candidate(chance.randrange(len(self._bench.words)), parent, chance.random() / 9, 0.004)
            for parent in parents
        )
        return Dropped(tuple(candidates), 0.0123)

    def _laws(self, node: int, nodes: tuple[Node, ...]) -> NodeLaws:
        """A made-up top: the node's children first."""
        children = [one.token for one in nodes if one.parent == node]
        others = [self._random_of_laws.randrange(len(self._bench.words)) for _ in range(6)]
        tokens = tuple(dict.fromkeys([*children, *others]))[:8]
        probs = tuple(round(0.6 * 0.5**rank, 3) for rank in range(len(tokens)))
        law = TopLaw(tokens, probs)
        return NodeLaws(node, law, law if self._options.temperature > 0.3 else None)

    def _scored(self, done: int, wanted: int) -> tuple[tuple[Node, ...], tuple[int, ...]]:
        path = _random_path(self._plan, wanted, self._random)
        by_depth = dict(zip(path, self._text[done - 1 :], strict=False))
        nodes = []
        for node, parent in enumerate(self._plan.parents):
            verdict = _verdict(self._plan.parents, node, path)
            token = by_depth.get(node, self._random.randrange(len(self._bench.words)))
            nodes.append(self._node(token, parent, verdict))
        return tuple(nodes), path

    def _node(self, token: int, parent: int | None, verdict: Verdict) -> Node:
        if parent is None:
            return Node(token, None, verdict)
        target = self._random.random()
        draft = self._random.random() * 0.9 + 0.002
        if self._options.temperature == 0:
            accept = 1.0 if verdict is Verdict.ACCEPTED else 0.0
            return Node(token, parent, verdict, draft, target, accept)
        accept = round(0.1 + 0.8 * self._random.random(), 3)
        draws = {
            Verdict.ACCEPTED: accept * self._random.random(),
            Verdict.REFUSED: accept + (1 - accept) * self._random.random(),
        }
        return Node(token, parent, verdict, draft, target, accept, draws.get(verdict))


def _random_path(plan: TreePlan, wanted: int, chance: random.Random) -> tuple[int, ...]:
    path = [0]
    while len(path) <= wanted and plan.children[path[-1]]:
        children = plan.children[path[-1]]
        path.append(children[min(int(chance.expovariate(1.6)), len(children) - 1)])
    return tuple(path)


def _verdict(parents: tuple[int | None, ...], node: int, path: tuple[int, ...]) -> Verdict:
    parent = parents[node]
    if parent is None:
        return Verdict.ROOT
    if node in path:
        return Verdict.ACCEPTED
    if parent not in path:
        return Verdict.NOT_REACHED
    kept = [child for child in children_of(parents)[parent] if child in path]
    return Verdict.NOT_REACHED if kept and kept[0] < node else Verdict.REFUSED
