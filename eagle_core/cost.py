"""Which tree is fastest on this machine: measured once, kept for later starts.

A larger tree is accepted deeper and takes longer to draft and to check; where that balances
depends on target, head and hardware, so the candidates are run, one after the other on each of a
few prompts, and the one with the best decode rate over all prompts is taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_core.progress import Progress

CANDIDATES = ("chain:3", "tree:8", "tree:12", "tree:25")
NUM_TOKENS = 32


@dataclass(frozen=True)
class DecodeCost:
    """What one run spent in its decode phase."""

    num_tokens: int
    ms: float


Measure = Callable[[str, str], DecodeCost]
"""Tree name and prompt to the cost of decoding that prompt with that tree."""


def fastest_tree(
    measure: Measure,
    prompts: Sequence[str],
    *,
    conditions: Mapping[str, str],
    store: Path,
    progress: Progress,
) -> str:
    """The candidate with the most tokens per second; from `store` if measured under the same
    `conditions` before. Raises what `measure` raises."""
    key = hashlib.sha256(json.dumps(dict(conditions), sort_keys=True).encode()).hexdigest()[:16]
    known = _read(store)
    if known.get(key, {}).get("fastest") in CANDIDATES:
        return str(known[key]["fastest"])
    rates = _measure_all(measure, prompts, progress)
    fastest = max(rates, key=lambda tree: rates[tree])
    entry = {"fastest": fastest, "tokens_per_s": rates, "conditions": dict(conditions)}
    _write(store, {**known, key: entry})
    return fastest


def _measure_all(measure: Measure, prompts: Sequence[str], progress: Progress) -> dict[str, float]:
    """Tokens per second of each candidate, prompt by prompt so that noise hits all alike."""
    costs: dict[str, list[DecodeCost]] = {tree: [] for tree in CANDIDATES}
    num_runs = len(prompts) * len(CANDIDATES)
    for done, (prompt, tree) in enumerate((p, t) for p in prompts for t in CANDIDATES):
        progress("measuring which draft tree is fastest here, once", done / num_runs)
        costs[tree].append(measure(tree, prompt))
    return {tree: _rate(runs) for tree, runs in costs.items()}


def _rate(runs: Sequence[DecodeCost]) -> float:
    ms = sum(run.ms for run in runs)
    return round(1000 * sum(run.num_tokens for run in runs) / ms, 3) if ms else 0.0


def _read(store: Path) -> dict[str, dict[str, object]]:
    try:
        known = json.loads(store.read_text())
    except (OSError, ValueError):
        return {}  # not measured yet, or damaged: measuring again mends it
    entries = known.items() if isinstance(known, dict) else ()
    return {key: entry for key, entry in entries if isinstance(entry, dict)}


def _write(store: Path, known: Mapping[str, object]) -> None:
    """Replace the file as a whole. Without room for it the next start measures again."""
    part = store.with_name(f"{store.name}.{os.getpid()}.part")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(known, indent=2))
        part.replace(store)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
