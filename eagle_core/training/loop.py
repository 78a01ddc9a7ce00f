"""Train a head on stored features.

    batch ─▶ noise ─▶ unroll ─▶ loss ─▶ sum over processes ─▶ clip ─▶ optimiser
                                                               validate, log, checkpoint

The order of the data and the noise follow from the seed, so a run that is killed and resumed gives
the same weights, bit for bit, as one that was not. Knows no particular target and no file formats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from eagle_core.drafters.heads import Head
from eagle_core.drafters.small import SmallModel
from eagle_core.errors import CorpusError, OptionError
from eagle_core.targets.base import Target
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.evaluate import Validator
from eagle_core.training.feed import Feed, Portion, TrainingData
from eagle_core.training.interrupts import interrupts
from eagle_core.training.objectives import Loss, loss_of, with_noise
from eagle_core.training.on_policy import OnPolicy
from eagle_core.training.optimizing import Optimizers
from eagle_core.training.processes import Processes
from eagle_core.training.settings import Intervals, TrainingSettings, rate_at
from eagle_core.training.unroll import unroll


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    num_tokens: int = 0
    seconds: float = 0.0
    best_chain_length: float = 0.0


@dataclass(frozen=True, eq=False)
class Done:
    """One step as all processes together made it."""

    loss: Loss
    seconds: float
    num_pairs: int
    is_interrupted: bool  # any of them was asked to end


class Trainer:
    """One run: a head, its optimiser, and its place in the data."""

    def __init__(
        self,
        head: Head,
        target: Target,
        data: TrainingData,
        folder: RunFolder,
        *,
        settings: TrainingSettings,
        intervals: Intervals | None = None,
        validator: Validator | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.head = head
        self.data = data
        self.folder = folder
        self.settings = settings
        self.intervals = intervals or Intervals()
        self.progress = Progress()
        self._device = target.spec.device
        self._embedding = target.embedding()
        self._dtype: torch.dtype = getattr(torch, settings.precision)
        self._unembedding = target.unembedding(data.vocabulary.to(self._device), dtype=self._dtype)
        self._validator = validator
        self._processes = processes or Processes()
        self._feed = Feed(
            data,
            taps=head.taps(target.spec.num_layers),
            settings=settings,
            processes=self._processes,
            device=self._device,
            author=self._author(target) if settings.on_policy_share else None,
        )
        self._optimizers = Optimizers(head.named_parameters(), settings)
        self._vocabulary = data.vocabulary.to(self._device)

    def _author(self, target: Target) -> OnPolicy:
        if not isinstance(self.head, SmallModel):
            raise OptionError(
                "an on-policy share for a head that reads features",
                expected="a small draft model, which can write by itself",
                hint="--method small",
            )
        return OnPolicy(
            self.head,
            target,
            unembedding=self._unembedding,
            vocabulary=self.data.vocabulary,
            dtype=self._dtype,
        )

    def run(self) -> None:
        """Train to the end of the budget, from wherever the folder's checkpoint is.

        Ctrl-C ends the step at hand, saves a checkpoint and raises KeyboardInterrupt.
        """
        self._resume()
        is_main = self._processes.is_main
        steps = self.settings.num_steps
        bar = tqdm(total=steps, initial=self.progress.step, desc="training", disable=not is_main)
        with bar, interrupts() as interrupted:
            for conversations in self._batches():
                if self.share_done() >= 1.0:
                    break
                done = self._step(conversations, interrupted=interrupted)
                if is_main:
                    bar.update()
                    self._look(done.loss, bar)
                if done.is_interrupted:
                    self._save()
                    raise KeyboardInterrupt
        self._validate()
        self._save()

    def share_done(self) -> float:
        if self.settings.num_steps is not None:
            return self.progress.step / self.settings.num_steps
        assert self.settings.minutes is not None, "settings hold one budget"
        return self.progress.seconds / 60 / self.settings.minutes

    def _batches(self) -> Iterator[tuple[int, ...]]:
        """From the place in the data onwards, epoch after epoch."""
        while True:
            progress = self.progress
            yield from self._feed.epoch(progress.epoch)[progress.batch :]
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, conversations: Sequence[int], *, interrupted: Callable[[], bool]) -> Done:
        """One batch; all processes leave it with the same weights and the same progress."""
        started = time.perf_counter()
        settings, progress = self.settings, self.progress
        self._optimizers.zero_grad()
        portion = self._feed.portion(conversations, step=progress.step)
        loss = self._backward(portion)
        done = self._sum_up(loss, started, portion.num_pairs, is_interrupted=interrupted())
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), settings.clip_norm)
        rate = rate_at(self.share_done(), warmup_share=settings.warmup_share)
        self._optimizers.step(learning_rate=settings.learning_rate * rate)
        progress.step += 1
        progress.batch += 1
        progress.num_tokens += done.num_pairs
        progress.seconds += done.seconds
        return done

    def _backward(self, portion: Portion) -> Loss:
        """This process' share of the batch's loss, and of its gradients."""
        batch = portion.batch
        if batch is None:
            return Loss.none(self._device)
        settings = self.settings
        own = self.head.lm_head
        is_half = self._dtype is torch.bfloat16
        noise = self._feed.noise(self.progress.step)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=is_half):
            estimates = unroll(
                self.head,
                with_noise(batch, noise=settings.noise, generator=noise),
                embedding=self._embedding,
                num_steps=1 + settings.self_fed_steps,
                wanted=batch.counts,
            )
            loss = loss_of(
                [self.head.readable(rows) for rows in estimates],
                batch,
                unembedding=self._unembedding,
                weights=settings.weights,
                own_rows=None if own is None else own.weight.to(self._dtype),
                num_rows=portion.num_rows[: len(estimates)],
                objective=settings.objective,
                vocabulary=self._vocabulary,
            )
        loss.total.backward()  # type: ignore[no-untyped-call]  # torch's own
        return loss

    def _sum_up(self, loss: Loss, started: float, num_pairs: int, *, is_interrupted: bool) -> Done:
        """Sum gradients and losses over the processes; the main one's clock is everybody's."""
        seconds = time.perf_counter() - started if self._processes.is_main else 0.0
        losses = torch.stack([loss.total, loss.feature, loss.token]).detach()
        told = torch.tensor([seconds, num_pairs, float(is_interrupted)], device=self._device)
        gradients = [gradient_of(weight) for weight in self.head.parameters()]
        self._processes.sum([*gradients, losses, told])
        return Done(Loss(*losses), float(told[0]), int(told[1]), is_interrupted=bool(told[2] > 0))

    def _look(self, loss: Loss, bar: tqdm[Any]) -> None:
        """Log, validate and save where it is due."""
        progress = self.progress
        if progress.step % self.intervals.log == 0:
            record = self._record(loss)
            self.folder.log(record)
            bar.set_postfix(
                loss=f"{record['loss']:.3f}",
                done=f"{self.share_done():.0%}",
                left=f"{self._minutes_left():.0f} min",
            )
        if progress.step % self.intervals.validation == 0:
            self._validate()
        if progress.step % self.intervals.checkpoint == 0:
            self._save()

    def _record(self, loss: Loss) -> dict[str, Any]:
        progress = self.progress
        return {
            "step": progress.step,
            "epoch": progress.epoch,
            "tokens": progress.num_tokens,
            "loss": round(float(loss.total), 5),
            "feature_loss": round(float(loss.feature), 5),
            "token_loss": round(float(loss.token), 5),
            "learning_rate": self._optimizers.learning_rate,
            "tokens_per_second": round(progress.num_tokens / max(progress.seconds, 1e-9), 1),
            "seconds": round(progress.seconds, 1),
        }

    def _minutes_left(self) -> float:
        share = max(self.share_done(), 1e-9)
        return self.progress.seconds / 60 * (1 / share - 1)

    def _validate(self) -> None:
        progress = self.progress
        if self._validator is None or not self._processes.is_main:
            return
        alphas = self._validator.alphas(self.head)
        self.folder.log(
            {
                "step": progress.step,
                "tokens": progress.num_tokens,
                "seconds": round(progress.seconds, 1),
                "alphas": [round(share, 4) for share in alphas.shares],
                "counted": list(alphas.counted),
                "chain_length": round(alphas.chain_length, 4),
            }
        )
        if alphas.chain_length > progress.best_chain_length:
            progress.best_chain_length = alphas.chain_length
            self.folder.save_best(self.head.state_dict())

    def _fingerprint(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        return {
            **asdict(self.settings),
            "head": self.head.config.to_json(),
            "corpus": self.data.corpus.digest,
            "conversations": self._feed.num_conversations,
            "draft_vocabulary": len(self.data.vocabulary),
        }

    def _save(self) -> None:
        if not self._processes.is_main:
            return
        self.folder.save_checkpoint(
            {
                "fingerprint": self._fingerprint(),
                "progress": asdict(self.progress),
                "head": self.head.state_dict(),
                "optimizers": self._optimizers.state_dict(),
            }
        )

    def _resume(self) -> None:
        state = self.folder.load_checkpoint()
        if state is None:
            self._cut_curve()
            return
        _refuse_other_run(state["fingerprint"], self._fingerprint())
        self.head.load_state_dict(state["head"])
        self._optimizers.load_state_dict(state["optimizers"])
        self.progress = Progress(**state["progress"])
        self._cut_curve()

    def _cut_curve(self) -> None:
        if self._processes.is_main:
            self.folder.cut_curve(self.progress.step)


def gradient_of(weight: Tensor) -> Tensor:
    """A weight's gradient, zero where nothing has reached it."""
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


def _refuse_other_run(saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    changed = [name for name in wanted if saved.get(name) != wanted[name]]
    if changed:
        raise CorpusError(
            f"this run began with other settings ({', '.join(changed)})",
            expected=", ".join(f"{name} {saved.get(name)}" for name in changed),
            hint="another --run folder",
        )
