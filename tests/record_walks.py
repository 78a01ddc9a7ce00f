"""Run the same prompts with trees of several sizes and keep what each step kept:

    python tests/record_walks.py                  writes assets/whatif/walks.json

The page takes the error of its what-if estimates from these runs. Greedy, so that all runs of a
prompt write the same text; no times are kept, so the machine may be busy.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from eagle_core.compare import as_lane
from eagle_core.options import RunOptions
from eagle_core.trace import Lane
from eagle_core.whatif import walks_of
from eagle_core.workbench import MEASURING_PROMPTS, Workbench

ROOT = Path(__file__).parent.parent
TREES = ("chain:3", "chain:5", "tree:8", "tree:12", "tree:25")
NUM_TOKENS = 64


def main() -> None:
    bench = Workbench.load(measures=False)
    runs = [run_of(bench, prompt, tree) for prompt in prompts() for tree in TREES]
    record = {
        "environment": asdict(bench.environment),
        "temperature": 0.0,
        "max_new_tokens": NUM_TOKENS,
        "runs": runs,
    }
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    lines = text.replace('{"prompt"', '\n{"prompt"')
    (ROOT / "assets" / "whatif" / "walks.json").write_text(lines, "utf-8")


def prompts() -> list[str]:
    """The page's examples and those that the machine is measured with, each once."""
    groups = json.loads((ROOT / "assets" / "prompts" / "examples.json").read_text("utf-8"))
    examples = [example["prompt"] for group in groups for example in group["examples"]]
    return [*dict.fromkeys((*examples, *MEASURING_PROMPTS))]


def run_of(bench: Workbench, prompt: str, tree: str) -> dict[str, Any]:
    options = RunOptions(max_new_tokens=NUM_TOKENS, tree=tree)
    lane: Lane = as_lane("eagle", bench.eagle(bench.encode(prompt), options))
    walks = walks_of(lane)
    print(f"{tree:8} τ {lane.tau:.2f}  {prompt[:60]}", flush=True)  # noqa: T201  a long wait
    return {
        "prompt": prompt,
        "tree": tree,
        "kept": [list(walk.kept) for walk in walks],
        "committed": [walk.num_committed for walk in walks],
    }


if __name__ == "__main__":
    main()
