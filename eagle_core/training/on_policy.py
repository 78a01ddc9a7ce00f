"""Texts that the draft model writes itself while it learns (DistillSpec, arXiv 2310.08461).

    a corpus' prompt ─ the draft model samples an answer ─ the target reads it ─▶ a batch of pairs

What a drafter is judged by are its own drafts, so it learns where those lead, not where the
target's texts would. Knows draft models, targets and corpora. Knows nothing of losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor

from eagle_core.drafters.small import SmallModel
from eagle_core.targets.base import Target
from eagle_core.training.batches import MIN_TOKENS, Batch, joined, pairs
from eagle_core.training.corpus import Corpus

MOST_WRITTEN = 128  # tokens of one answer
Function = Callable[[Tensor], Tensor]


class OnPolicy:
    """Lets a draft model answer the prompts of a corpus, and the target read what it wrote.

    unembedding: the model's states after its norm to logits over `vocabulary`, (V',).
    dtype: of the model's matrix products; the target reads in its own.
    """

    def __init__(
        self,
        model: SmallModel,
        target: Target,
        *,
        unembedding: Function,
        vocabulary: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._model = model
        self._target = target
        self._unembedding = unembedding
        self._vocabulary = vocabulary.to(target.spec.device)
        self._dtype = dtype

    @torch.no_grad()
    def batch(
        self, corpus: Corpus, conversations: Sequence[int], *, chance: torch.Generator
    ) -> Batch | None:
        """Pairs of new answers, as long as the corpus' own at most; None if there are none."""
        if not conversations:
            return None
        texts = [_prompt_of(corpus, each) for each in conversations]
        lengths = [
            _room_of(corpus, each, len(text))
            for each, text in zip(conversations, texts, strict=True)
        ]
        device, is_half = self._target.spec.device, self._dtype is torch.bfloat16
        with torch.autocast(device.type, torch.bfloat16, enabled=is_half):
            written = self._continued(texts, max(lengths, default=0), chance)
        parts = []
        for prompt, answer, length in zip(texts, written, lengths, strict=True):
            whole = torch.cat([prompt, self._ended(answer[:length])])
            if len(whole) >= MIN_TOKENS:
                is_answer = torch.arange(len(whole)) >= len(prompt)
                parts.append(self._read(whole, is_answer))
        return joined(parts, device=device) if parts else None

    def _read(self, text: Tensor, is_answer: Tensor) -> tuple[Tensor, ...]:
        spec = self._target.spec
        read = self._target.open().prefill(text.to(spec.device), taps=(spec.last_state,))
        last = read.features.float().cpu()
        return pairs(text, is_answer, last, last)

    def _ended(self, answer: Tensor) -> Tensor:
        """Up to its first end token, which belongs to it."""
        ends = torch.tensor(sorted(self._target.spec.end_tokens), dtype=answer.dtype)
        found = torch.isin(answer, ends).nonzero()
        return answer[: int(found[0]) + 1] if len(found) else answer

    def _continued(
        self, prompts: Sequence[Tensor], num_tokens: int, chance: torch.Generator
    ) -> Tensor:
        """(B, num_tokens) on the CPU, drawn at temperature 1 row by row; ends are passed over."""
        reading = Reading(self._model, self._target.embedding(), prompts, room=num_tokens)
        states, drawn = reading.prompts(), list[Tensor]()
        for _ in range(num_tokens):
            logits = self._unembedding(self._model.readable(states)).float()
            numbers = logits.softmax(-1).cpu().multinomial(1, generator=chance)[:, 0]
            tokens = self._vocabulary[numbers.to(self._vocabulary.device)]
            drawn.append(tokens.cpu())
            states = reading.token(tokens)
        return (
            torch.stack(drawn, dim=1) if drawn else torch.empty(len(prompts), 0, dtype=torch.int64)
        )


class Reading:
    """A model's way through several texts at once, their ends side by side.

    As pairs have it, the first token of a text is not read, and the second stands at position 0.
    """

    def __init__(
        self, model: SmallModel, embedding: Function, prompts: Sequence[Tensor], *, room: int
    ) -> None:
        self._model, self._embedding = model, embedding
        device = next(model.parameters()).device
        longest = max(len(prompt) - 1 for prompt in prompts)
        self._pads = torch.tensor([longest - len(prompt) + 1 for prompt in prompts], device=device)
        self._prompts = torch.stack(
            [F.pad(prompt[1:], (longest - len(prompt) + 1, 0)) for prompt in prompts]
        ).to(device)
        config = model.config
        shape = (2, len(prompts), config.num_kv_heads, longest + room, config.head_dim)
        self._rows = [torch.zeros(shape, device=device) for _ in model.llama_layers]
        self._num_read = 0

    def prompts(self) -> Tensor:
        """States after the prompts' last tokens, (B, width)."""
        return self._read(self._prompts)

    def token(self, tokens: Tensor) -> Tensor:
        """States after one more token each, (B,) to (B, width)."""
        return self._read(tokens[:, None])

    def _read(self, tokens: Tensor) -> Tensor:
        first, end = self._num_read, self._num_read + tokens.shape[1]
        columns = torch.arange(first, end, device=tokens.device)
        positions = (columns - self._pads[:, None]).clamp_min(0)  # (B, R)
        seen = torch.arange(end, device=tokens.device)
        allowed = (seen <= columns[:, None]) & (seen >= self._pads[:, None, None])  # (B, R, end)
        allowed = (allowed | (seen == columns[:, None]))[:, None]  # padding sees itself alone
        x = self._embedding(tokens).float()
        for layer, rows in zip(self._model.llama_layers, self._rows, strict=True):
            read, residual = layer.enter(x)
            attention = layer.self_attn
            q, k, v = attention.project(read, positions=positions)
            rows[0, :, :, first:end], rows[1, :, :, first:end] = k, v
            keys, values = (attention.per_query_head(half[:, :, :end]) for half in rows)
            mixed = F.scaled_dot_product_attention(
                q.to(keys), keys, values, attn_mask=allowed, is_causal=False
            )
            x = layer.finish(residual.float(), attention.merge(mixed))
        self._num_read = end
        return x[:, -1]


def _prompt_of(corpus: Corpus, conversation: int) -> Tensor:
    """Everything before the first answer; at least the two tokens that a pair begins with."""
    rows = corpus.rows(conversation)
    answer = corpus.answer[rows]
    length = max(int(answer.argmax()) if answer.any() else len(answer), 2)
    return torch.from_numpy(corpus.tokens[rows][:length].astype(np.int64))


def _room_of(corpus: Corpus, conversation: int, num_prompt_tokens: int) -> int:
    """As many tokens as the corpus' own answer has, within limits."""
    answer = corpus.answer[corpus.rows(conversation)][num_prompt_tokens:]
    others = np.flatnonzero(~answer)
    return min(int(others[0]) if len(others) else len(answer), MOST_WRITTEN)
