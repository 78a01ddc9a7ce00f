"""Ask a freshly loaded model whether it can be decoded in trees.

    prompt ── root ─┬─ a ── b      scored as one tree, then path by path by the model's own
                    └─ c ── d      plain forward; both must agree, before and after a commit

Knows targets and their models. Knows nothing of drafters or text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from eagle_core.errors import TargetError
from eagle_core.targets.hf import windows
from eagle_core.tree import DraftTree

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.targets.hf import HfTarget

NUM_PROMPT_TOKENS = 8
PARENTS = (None, 0, 0, 1, 2)
PATHS = ((0, 1, 3), (0, 2, 4))

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
HALF_TOLERANCE = 0.25
"""Allowed distance as a share of the spread of the logits: kernels differ with the row count.

Seen with the default target on a CPU: 7e-6 in fp32, 0.02 in fp16, 0.07 in bf16; with the mask or
the positions left out, 1.6 and more in each.
"""


def check(target: HfTarget) -> None:
    """Raises TargetError in one sentence for a model that cannot be decoded in trees."""
    _check_attention(target)
    try:
        error = worst_difference(target)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as reason:
        # Whatever its forward makes of a mask, positions and a cache it was not written for.
        raise _refused(target, f"its forward fails on a tree ({reason})") from reason
    tolerance = TOLERANCE.get(target.spec.dtype, HALF_TOLERANCE)
    if not error <= tolerance:  # a NaN is refused too
        raise _refused(
            target, f"tree and path logits differ by {error:.1e} of their spread, over {tolerance}"
        )


def worst_difference(target: HfTarget) -> float:
    """The largest root-mean-square distance of any node's logits, per spread of the logits."""
    prompt, *nodes = torch.split(_probe_tokens(target), [NUM_PROMPT_TOKENS, *[1] * len(PARENTS)])
    tokens = tuple(int(node) for node in nodes)
    tree = DraftTree(tokens, PARENTS, (0.0,) * len(tokens))
    run = target.open()
    read = run.prefill(prompt)
    scored = run.score_tree(tree).logits  # (N, V)
    pairs = [(read.logits[0], _plain_logits(target.model, prompt)[-1])]
    for path in PATHS:
        plain = _plain_logits(target.model, torch.cat([prompt, *(nodes[n] for n in path)]))
        pairs += [(scored[node], plain[NUM_PROMPT_TOKENS + i]) for i, node in enumerate(path)]
    run.keep_path(PATHS[1][:2])
    again = run.score_tree(DraftTree.root_only(tokens[PATHS[1][2]])).logits[0]
    pairs.append((again, pairs[-1][1]))
    return max(_distance(ours, plain) for ours, plain in pairs)


def _plain_logits(model: Any, tokens: Tensor) -> Tensor:
    """(P, V), by the model's own mask, positions and logits."""
    with torch.no_grad():
        logits: Tensor = model(input_ids=tokens[None], use_cache=False).logits
    return logits[0]


def _distance(ours: Tensor, plain: Tensor) -> float:
    difference = (ours.float() - plain.float()).square().mean().sqrt()
    return float(difference / plain.float().std())


def _probe_tokens(target: HfTarget) -> Tensor:
    """Different tokens from all over the vocabulary."""
    count = NUM_PROMPT_TOKENS + len(PARENTS)
    step = max(target.spec.vocab_size // (count + 1), 1)
    ids = (torch.arange(count) + 1) * step % target.spec.vocab_size
    return ids.to(target.spec.device)


def _check_attention(target: HfTarget) -> None:
    """A recurrent state may not show in a few tokens, so the config is asked."""
    kinds = set(getattr(target.config, "layer_types", None) or ())
    if others := sorted(kinds - {"full_attention", *windows(target.config)}):
        raise _refused(target, f"it has {' and '.join(others)}")


def _refused(target: HfTarget, why: str) -> TargetError:
    return TargetError(
        f"{target.spec.name} cannot be decoded in trees: {why}",
        expected="full attention that honours a 4-D mask and explicit positions",
        hint="another model",
    )
