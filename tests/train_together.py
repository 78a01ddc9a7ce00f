"""A toy training run, alone or as one of several processes: `train_together.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from training_toys import ALL_TOKENS, CONFIG, LENGTHS, ToyTarget, corpus_of

from eagle_core.drafters.head import EagleHead
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.features import compute_features
from eagle_core.training.feed import TrainingData
from eagle_core.training.loop import Trainer
from eagle_core.training.processes import Processes
from eagle_core.training.settings import Intervals, TrainingSettings


def main() -> None:
    folder = Path(sys.argv[1])
    processes = Processes.joined(device="cpu")
    target, corpus = ToyTarget(), corpus_of(LENGTHS)
    store = compute_features(corpus, target, folder / f"features-{processes.rank}")
    torch.manual_seed(0)
    Trainer(
        EagleHead(CONFIG),
        target,
        TrainingData(corpus, store, range(len(LENGTHS)), ALL_TOKENS),
        RunFolder(folder),
        settings=TrainingSettings(
            num_steps=12, batch_tokens=30, learning_rate=3e-3, self_fed_steps=1, noise="none"
        ),
        intervals=Intervals(log=1, checkpoint=12),
        processes=processes,
    ).run()


if __name__ == "__main__":
    main()
