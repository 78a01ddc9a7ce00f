"""A target, its tokenizer and a head, loaded once and shared read-only by every run.

    load ─▶ Workbench ─ race(prompt, options) ─▶ Recording, one lane plain, one EAGLE

The page, the command line and the benchmark all begin here.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers

from eagle_core.auto import AutoPlanner
from eagle_core.cost import UNMEASURED, Profile, ProfileStore
from eagle_core.decoding import Decoding
from eagle_core.drafters.base import Drafter
from eagle_core.drafters.files import HUB_ID, fetch, fingerprint, name_of
from eagle_core.drafters.heads import LoadedHead, load_head
from eagle_core.drafters.opening import open_drafter
from eagle_core.engine import Engine
from eagle_core.errors import HeadError, OptionError, PromptError
from eagle_core.measuring import Measuring
from eagle_core.optimum import Optimum, best_tree
from eagle_core.options import RunOptions
from eagle_core.packed import pack_linears
from eagle_core.plain import Plain
from eagle_core.plans import BEST, OF_THIS_MACHINE, plan_named
from eagle_core.progress import Progress, no_progress
from eagle_core.quantised import KINDS, Quantisation
from eagle_core.recording import Recording
from eagle_core.rules import FACTS
from eagle_core.shipped import DEFAULT_HEAD, DEFAULT_TARGET, HEADS, shipped_heads
from eagle_core.targets.loading import load_target, load_tokenizer
from eagle_core.targets.store import cache_root, resolve
from eagle_core.text import ChatText, Conversation
from eagle_core.trace import Environment, Event, Settings, Step, Turn

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.planning import Planner
    from eagle_core.targets.base import Target

ALL_DEVICES = "auto"  # the target is spread over every device there is
LARGEST_TREE = "tree:25"
WARM_UP_TOKENS = 8
MEASURED_TOKENS = 48  # per measuring prompt
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
MEASURING_PROMPTS = (
    "Explain in two sentences why the sky is blue.",
    "Write a Python function that returns the sum of a list of numbers.",
    "Give me three tips for learning a new language.",
)


@dataclass(frozen=True, eq=False)
class Workbench:
    """Everything that runs share; nothing in it changes after loading.

    unembedding: post-norm features to logits in the order of the head's vocabulary, V' of them.
    profile: what passes take here and how often drafts are kept; the tree `auto` goes by it.
    """

    target: Target
    head: LoadedHead
    unembedding: Callable[[Tensor], Tensor]
    text: ChatText
    environment: Environment
    profile: Profile = UNMEASURED

    @classmethod
    def load(
        cls,
        *,
        target: str | None = None,
        head: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
        measures: bool = True,
    ) -> Workbench:
        """Fetch, load and check target and head; measure this machine, once.

        Where `measures` is False the times of another machine stand in.
        Raises an `EagleError` of one sentence for whatever the caller can mend.
        """
        report = progress or no_progress
        place = device_named(device)
        folder = head_folder(head, target=target)
        source = resolve(target, cache=cache, progress=progress)
        report("loading the target", None)
        model = load_target(
            source,
            device=place,
            dtype=dtype_named(dtype, place),
            quantisation=quantisation_named(dtype),
            device_map="auto" if device == ALL_DEVICES else None,
        )
        report("loading the head", None)
        tokenizer = load_tokenizer(source)
        loaded = load_head(
            folder,
            spec=model.spec,
            embedding=model.embedding(),
            tokenizer=tokenizer.get_vocab(),
        )
        pack_linears(loaded.head)
        bench = cls(
            target=model,
            head=loaded,
            unembedding=loaded.unembedding(model.unembedding),
            text=ChatText(tokenizer),
            environment=describe(model, head_name=name_of(folder)),
        )
        report("warming up", None)
        bench._warm_up()
        if not measures:
            return bench
        store = ProfileStore(cache_root(cache) / "profiles.json")
        return replace(bench, profile=bench.measured(store, report))

    def with_head(self, name: str) -> Workbench:
        """The same target with another shipped head, warmed up; what was measured stays.

        Raises `HeadError`.
        """
        folder = head_folder(name, target=None)
        loaded = load_head(folder, spec=self.target.spec, embedding=self.target.embedding())
        pack_linears(loaded.head)
        bench = replace(
            self,
            head=loaded,
            unembedding=loaded.unembedding(self.target.unembedding),
            environment=replace(self.environment, head=name_of(folder)),
        )
        bench._warm_up()
        return bench

    def _warm_up(self) -> None:
        for _ in self._greedy(self.encode(MEASURING_PROMPTS[0]), WARM_UP_TOKENS):
            pass

    def race(self, prompt: str, options: RunOptions, *, earlier: Sequence[Turn] = ()) -> Recording:
        """Both lanes over one prompt, in virtual time; raises `PromptError` before any work.

        `earlier` is the conversation that the prompt follows: `Trace.conversation` of the run
        before, or turns from elsewhere.
        """
        tokens = self.encode([asdict(turn) for turn in (*earlier, Turn("user", prompt))])
        lanes = {"plain": self.plain(tokens, options), "eagle": self.eagle(tokens, options)}
        return Recording(
            prompt,
            lanes,
            settings=Settings(**asdict(replace(options, rule=options.resolved_rule))),
            environment=self.environment,
            earlier=tuple(earlier),
            piece=self.text.piece,
            stream=lambda: self.text.stream(options.stop),
        )

    def encode(self, prompt: str | Conversation) -> list[int]:
        """The prompt in the target's chat template; raises `PromptError` where it cannot fit."""
        tokens = self.text.encode_chat(prompt)
        limit = self.target.spec.max_positions
        if len(tokens) >= limit:
            is_first = isinstance(prompt, str) or len(prompt) == 1
            raise PromptError(
                f"a {'prompt' if is_first else 'conversation'} of {len(tokens):,} tokens",
                expected=f"fewer than {limit:,}, the target's context",
                hint="a shorter prompt" if is_first else "starting afresh",
            )
        return tokens

    def plain(self, tokens: list[int], options: RunOptions) -> Iterator[Event]:
        return Plain(self._decoding(options)).steps(tokens)

    def eagle(self, tokens: list[int], options: RunOptions) -> Iterator[Event]:
        plan = self.planner_for(options)
        return Engine(self._decoding(options), self.open_drafter(), plan=plan).steps(tokens)

    def _decoding(self, options: RunOptions) -> Decoding:
        return Decoding.open(self.target, options, decode=self.text.decode)

    def planner_for(self, options: RunOptions) -> Planner:
        """For one lane; that of `auto` learns as the lane goes on."""
        facts = FACTS[options.resolved_rule]
        if options.tree not in OF_THIS_MACHINE:
            return plan_named(options.tree, siblings=facts.siblings)
        best = self._best_chain if facts.is_for_chains else self._best_tree
        if options.tree == BEST:
            return replace(best.plan, siblings=facts.siblings)
        return AutoPlanner(
            self.profile, rate=best.rate, siblings=facts.siblings, is_chain=facts.is_for_chains
        )

    @cached_property
    def _best_tree(self) -> Optimum:
        return best_tree(self.profile)

    @cached_property
    def _best_chain(self) -> Optimum:
        return best_tree(self.profile, is_chain=True)

    def open_drafter(self) -> Drafter:
        """A drafter for one lane: the head's shared weights, a cache of its own."""
        return open_drafter(
            self.head,
            self.target.spec,
            embedding=self.target.embedding(),
            unembedding=self.unembedding,
        )

    def measured(self, store: ProfileStore, report: Progress) -> Profile:
        """This machine's profile: from the store if it was measured under these conditions."""
        known = store.find(self.conditions)
        if known is not None:
            return known
        profile = self.measuring(report).profile()
        store.keep(profile, self.conditions)
        return profile

    def measuring(self, report: Progress) -> Measuring:
        return Measuring(
            self.target,
            self.open_drafter,
            prompts=[self.encode(prompt) for prompt in MEASURING_PROMPTS],
            answer=lambda tokens: self._greedy(tokens, MEASURED_TOKENS),
            progress=report,
        )

    @cached_property
    def conditions(self) -> dict[str, str]:
        """What must be the same for two measurements to be of the same thing."""
        return {
            "target": self.environment.target,
            "head": fingerprint(self.head.folder),
            "device": self.environment.device,
            "dtype": self.environment.dtype,
            "threads": str(self.environment.threads),
            **self.environment.versions,
        }

    def _greedy(self, tokens: Sequence[int], num_tokens: int) -> Iterator[Step]:
        """The steps of an answer drafted with the largest tree."""
        options = RunOptions(max_new_tokens=num_tokens, tree=LARGEST_TREE)
        events = self.eagle([*tokens], options)
        return (event for event in events if isinstance(event, Step))


def head_folder(head: str | None, *, target: str | None) -> Path:
    """Where the head lies: the folder given, a shipped head of the default target by name, or
    the folder of a head fetched from the hub."""
    is_default = target is None or target == DEFAULT_TARGET
    shipped = HEADS / DEFAULT_TARGET
    if head is None and not is_default:
        raise HeadError(f"no head for target {target}", hint="--head with a head's folder")
    folder = Path(head).expanduser() if head else shipped / DEFAULT_HEAD
    if not folder.is_dir() and head and is_default and (shipped / head).is_dir():
        folder = shipped / head
    if not folder.exists() and head and HUB_ID.fullmatch(head):
        return fetch(head)
    if not folder.is_dir():
        names = shipped_heads(DEFAULT_TARGET)
        raise HeadError(
            f"head {str(folder)!r} is not a folder",
            expected=f"a head's folder or hub id, or one of {', '.join(names)}" if names else None,
        )
    return folder


def device_named(name: str | None) -> torch.device:
    """`cpu`, `cuda`, `cuda:1`, …; by default, and for `auto`, a GPU where there is one."""
    if name is None or name == ALL_DEVICES:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise OptionError(f"device {name!r:.40}", expected="cpu, cuda, cuda:N or auto") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"device {name}", expected="a CUDA GPU", hint="--device cpu")
    return device


def dtype_named(name: str | None, device: torch.device) -> torch.dtype:
    """What activations are in: by default float32 on a CPU, where greedy texts must be equal, and
    bfloat16 on CUDA; bfloat16 over quantised weights."""
    if name is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if quantisation_named(name) is not None:
        return torch.bfloat16
    if name not in DTYPES:
        known = ", ".join([*DTYPES, *KINDS])
        raise OptionError(f"dtype {name!r:.40}", expected=f"one of {known}")
    return DTYPES[name]


def quantisation_named(name: str | None) -> Quantisation | None:
    """Of the weights, where a dtype's name asks for it."""
    return next((kind for kind in KINDS if kind == name), None)


def describe(target: Target, *, head_name: str) -> Environment:
    spec = target.spec
    return Environment(
        target=spec.name,
        head=head_name,
        device=device_description(spec.device),
        dtype=spec.precision,
        threads=torch.get_num_threads(),
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    )


def device_description(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {platform.machine()}, {os.cpu_count()} cores"
