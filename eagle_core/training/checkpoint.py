"""Where a run can be taken up again, and the curve it has drawn so far.

    checkpoint.pt    weights, optimiser, random state, place in the data, settings
    best.safetensors the weights with the best validation so far
    curve.jsonl      one line per log or validation
    command.txt      the command that began the run
    began_with.json  the record of the head whose weights it began with, if it did

Knows files and state dicts. Knows nothing of how they are used.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_core.errors import CorpusError
from eagle_core.training.files import plain_words, write_atomically

CHECKPOINT, BEST = "checkpoint.pt", "best.safetensors"
CURVE, COMMAND, ORIGIN = "curve.jsonl", "command.txt", "began_with.json"
VERSION = 1


@dataclass(frozen=True)
class RunFolder:
    """The files of one training run."""

    path: Path

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        whole = {"version": VERSION, **state}
        write_atomically(self.path / CHECKPOINT, lambda path: torch.save(whole, path))

    def load_checkpoint(self) -> dict[str, Any] | None:
        """None where the run has not begun."""
        path = self.path / CHECKPOINT
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, zipfile.BadZipFile) as e:
            reason = str(e).splitlines()[0] if str(e) else type(e).__name__
            raise CorpusError(
                f"checkpoint {path} cannot be read ({reason})",
                hint="another --run folder, or deleting this one",
            ) from None
        if state.get("version") != VERSION:
            raise CorpusError(
                f"checkpoint {path} of version {state.get('version')}", expected=str(VERSION)
            )
        return state

    def save_best(self, weights: dict[str, Tensor]) -> None:
        own = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
        write_atomically(self.path / BEST, lambda path: save_file(own, path))

    def load_best(self) -> dict[str, Tensor]:
        path = self.path / BEST
        if not path.exists():
            raise CorpusError(
                f"no validated head in {self.path}",
                hint="a longer training, past its first validation",
            )
        return load_file(path)

    def note_command(self, command: str) -> None:
        """Keep the first command; those that resume it are the same."""
        path = self.path / COMMAND
        if not path.exists():
            write_atomically(path, lambda staged: staged.write_text(command + "\n"))

    def command(self) -> str:
        path = self.path / COMMAND
        return path.read_text().strip() if path.exists() else "unknown"

    def note_origin(self, record: Path) -> None:
        """Keep the training record of the head that this run begins with."""
        if record.exists():
            text = record.read_text()
            write_atomically(self.path / ORIGIN, lambda staged: staged.write_text(text))

    def origin(self) -> dict[str, Any] | None:
        path = self.path / ORIGIN
        if not path.exists():
            return None
        record: dict[str, Any] = json.loads(path.read_text())
        return record

    def log(self, record: dict[str, Any]) -> None:
        with plain_words(self.path / CURVE), (self.path / CURVE).open("a") as file:
            file.write(json.dumps(record) + "\n")

    def curve(self) -> list[dict[str, Any]]:
        path = self.path / CURVE
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def cut_curve(self, step: int) -> None:
        """Drop what was logged after `step`: a resumed run writes it again."""
        kept = [json.dumps(record) + "\n" for record in self.curve() if record["step"] <= step]
        write_atomically(self.path / CURVE, lambda path: path.write_text("".join(kept)))
