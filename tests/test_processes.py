"""Several processes train as one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.processes import Processes

TESTS = Path(__file__).parent
LAUNCHER = "accelerate.commands.launch"
TOGETHER = ["--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
PLAINLY = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]


def trained(folder: Path, *launcher: str) -> RunFolder:
    """The toy run of `train_together.py` in a process of its own, or in several."""
    folder.mkdir()
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(TESTS / "train_together.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return RunFolder(folder)


def weights_of(run: RunFolder) -> dict[str, torch.Tensor]:
    state: dict[str, Any] | None = run.load_checkpoint()
    assert state is not None
    head: dict[str, torch.Tensor] = state["head"]
    return head


def test_two_processes_give_the_curve_and_the_weights_of_one(tmp_path: Path) -> None:
    alone = trained(tmp_path / "alone")
    together = trained(tmp_path / "together", "-m", LAUNCHER, *TOGETHER, *PLAINLY)
    one, two = ([row["loss"] for row in run.curve()] for run in (alone, together))
    assert len(one) == 12
    assert one[-1] < one[0]
    np.testing.assert_allclose(two, one, atol=2e-5)
    assert [row["tokens"] for row in together.curve()] == [row["tokens"] for row in alone.curve()]
    for name, weight in weights_of(alone).items():
        torch.testing.assert_close(weights_of(together)[name], weight, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_conversation_of_a_batch_is_somebodys(size: int) -> None:
    lengths = np.array([50, 9, 30, 21, 4, 17, 40])
    batch = [6, 0, 2, 3, 5]
    shares = [Processes(rank, size).share(batch, lengths=lengths) for rank in range(size)]
    assert sorted(number for share in shares for number in share) == sorted(batch)
    loads = [sum(int(lengths[number]) for number in share) for share in shares]
    assert max(loads) - min(loads) <= max(lengths)


def test_one_process_adds_nothing_to_its_sums() -> None:
    tensor = torch.tensor([1.0, 2.0])
    Processes().sum([tensor])
    assert tensor.tolist() == [1.0, 2.0]
