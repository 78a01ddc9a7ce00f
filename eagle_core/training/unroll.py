"""Run a head over whole conversations, first on true features, then on its own estimates.

Step 0 reads true features. In step s, row i reads the estimate that row i-1 made in step s-1, and
sees what it would see while drafting s tokens deep: true rows up to i-s, then one row each of the
steps 1 … s.

    s = 2, row 5:   true rows 0 1 2 3 │ row 4 of step 1 │ row 5 of step 2

So one unroll over a text gives what a chain drafted from every position of it would give, as long
as the drafted tokens are the text's own. Medusa's blocks feed nothing back: its step s is what
block s makes of the feature s rows before. A small model reads tokens alone, so all its steps are
one. Knows heads and packed rows. Knows nothing of losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor

from eagle_core.drafters.heads import Head
from eagle_core.drafters.medusa import MedusaHead
from eagle_core.drafters.small import SmallModel
from eagle_core.training.batches import Batch


class KeysValues(NamedTuple):
    keys: Tensor  # (heads, R, head_dim)
    values: Tensor  # (heads, R, head_dim)


def unroll(
    head: Head,
    batch: Batch,
    *,
    embedding: Callable[[Tensor], Tensor],
    num_steps: int = 1,
    wanted: Tensor | None = None,  # (R,) bool
) -> list[Tensor]:
    """Estimates (R, D) of every step; in step s, a conversation's first s rows mean nothing.

    Only the `wanted` rows come back, where they are named: the last step is cheaper for it. What
    is added up from product to product stays in float32 under autocast too.
    """
    if isinstance(head, MedusaHead):
        return _blocks_at(head, batch, num_steps=num_steps, wanted=wanted)
    if isinstance(head, SmallModel):
        states = _states_of(head, batch, embedding=embedding)
        return [states if wanted is None else states[wanted]] * num_steps
    layer, positions = head.layer, batch.positions
    embeddings = embedding(batch.tokens_at(head.token_offset)).float()
    fused = head.fuse(batch.features).float()  # (R, D)
    is_first = (positions == 0)[:, None]
    estimates: list[Tensor] = []
    past: list[KeysValues] = []
    inputs = fused
    for step in range(num_steps):
        entered = head.enter(embeddings, inputs)
        residual = entered.residual.float()
        q, k, v = layer.self_attn.project(entered.read, positions=positions)
        past.append(KeysValues(*(layer.self_attn.per_query_head(rows) for rows in (k, v))))
        mixed = attend_packed(q, past, lengths=batch.lengths)
        if wanted is not None and step == num_steps - 1:
            merged = layer.self_attn.merge(mixed[:, wanted])
            estimates.append(layer.finish(residual[wanted], merged))
            return estimates
        estimate = layer.finish(residual, layer.self_attn.merge(mixed))
        estimates.append(estimate if wanted is None else estimate[wanted])
        inputs = torch.where(is_first, fused, estimate.roll(1, dims=0))
    return estimates


def _blocks_at(
    head: MedusaHead, batch: Batch, *, num_steps: int, wanted: Tensor | None
) -> list[Tensor]:
    """Block s makes row i of step s from feature i-s; there are no more steps than blocks."""
    blocks = list(head.blocks)[:num_steps]
    steps = [block(batch.features).roll(step, dims=0) for step, block in enumerate(blocks)]
    return steps if wanted is None else [rows[wanted] for rows in steps]


def _states_of(model: SmallModel, batch: Batch, *, embedding: Callable[[Tensor], Tensor]) -> Tensor:
    """(R, D), what the last layer makes of each text's tokens so far."""
    x, positions = embedding(batch.tokens).float(), batch.positions
    for layer in model.llama_layers:
        read, residual = layer.enter(x)
        q, k, v = layer.self_attn.project(read, positions=positions)
        seen = KeysValues(*(layer.self_attn.per_query_head(rows) for rows in (k, v)))
        mixed = attend_packed(q, [seen], lengths=batch.lengths)
        x = layer.finish(residual.float(), layer.self_attn.merge(mixed))
    return x


def attend_packed(q: Tensor, past: Sequence[KeysValues], *, lengths: Sequence[int]) -> Tensor:
    """Attention of the newest step, (heads, R, head_dim), each conversation by itself."""
    parts = torch.split(q, list(lengths), dim=1)
    rows = [[torch.split(t, list(lengths), dim=1) for t in step] for step in past]
    return torch.cat(
        [
            _attend(part, [KeysValues(keys[i], values[i]) for keys, values in rows])
            for i, part in enumerate(parts)
        ],
        dim=1,
    )


def _attend(q: Tensor, past: Sequence[KeysValues]) -> Tensor:
    """One conversation of n rows at step s = len(past) - 1."""
    true, estimated = past[0], past[1:]
    num_rows, depth = q.shape[1], len(estimated)
    seen = torch.ones(num_rows, num_rows, dtype=torch.bool, device=q.device).tril(-depth)
    scores = [(q @ true.keys.mT).masked_fill(~seen, float("-inf"))]  # (heads, n, n)
    row = torch.arange(num_rows, device=q.device)
    shifted = []
    for step, rows in enumerate(estimated, start=1):
        back = depth - step  # row i sees row i - back of this step
        shifted.append(KeysValues(*(_shift(tensor, back) for tensor in rows)))
        own = (q * shifted[-1].keys).sum(-1).masked_fill(row < back, float("-inf"))
        scores.append(own[..., None])  # (heads, n, 1)
    weights = (torch.cat(scores, dim=-1) * q.shape[-1] ** -0.5).softmax(-1)
    mixed: Tensor = weights[..., :num_rows] @ true.values
    for column, rows in enumerate(shifted, start=num_rows):
        mixed = mixed + weights[..., column, None] * rows.values
    return mixed


def _shift(rows: Tensor, back: int) -> Tensor:
    """Row i becomes what row i - back was; zeros come in at the front."""
    return F.pad(rows, (0, 0, back, 0))[:, : rows.shape[1]]
