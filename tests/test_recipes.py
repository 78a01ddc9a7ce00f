"""Recipes: the whole chain on a tiny random target, taken up again after a kill."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from corpus_toys import TEMPLATE, word_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.drafters.heads import load_head
from eagle_core.targets.loading import load_target
from eagle_core.training.__main__ import main, parsed
from eagle_core.training.making import SHIPPED_CORPUS, make
from eagle_core.training.recipes import RECIPES

ROOT = Path(__file__).parent.parent
SHIPPED_RECORDS = sorted((ROOT / "assets" / "heads").glob("*/*/training.json"))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven layers, so that an EAGLE-3 head has the states that it taps."""
    folder, tokenizer = tmp_path_factory.mktemp("target"), word_tokenizer(TEMPLATE)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=7,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.1,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def words(name: str, target: Path, out: Path) -> list[str]:
    flags = {"--target": target, "--out": out, "--device": "cpu", "--threads": 1}
    return ["recipe", name, "--tiny", *(str(w) for flag in flags.items() for w in flag)]


@pytest.mark.parametrize("name", ["eagle", "eagle3", "medusa", "small-tvd", "inputs-feature"])
def test_one_command_leads_from_a_target_to_its_head(
    target: Path, tmp_path: Path, name: str
) -> None:
    assert main(words(name, target, tmp_path)) == 0
    spec = load_target(target, device="cpu").spec
    loaded = load_head(tmp_path / name, spec=spec)
    assert loaded.vocabulary is not None
    assert len(loaded.vocabulary) == 40
    record = json.loads((tmp_path / name / "training.json").read_text())
    assert record["recipe"] == name
    assert (record["began_with"] is None) == (len(RECIPES[name].runs) == 1)
    card = (tmp_path / name / "README.md").read_text()
    assert f"python -m eagle_core.training recipe {name}`" in card
    assert f"python -m eagle_core.training train --corpus {tmp_path / 'corpus'}" in card


def test_every_recipe_is_flags_that_the_trainer_knows() -> None:
    for recipe in RECIPES.values():
        for flags in recipe.runs:
            shared = ["train", "--corpus", "x", "--method", recipe.method]
            assert parsed([*shared, *flags.split()]).steps > 0


@pytest.mark.parametrize("shipped", SHIPPED_RECORDS, ids=lambda path: path.parent.name)
def test_a_recipe_takes_the_steps_that_the_records_of_its_shipped_head_tell(shipped: Path) -> None:
    record, taken = json.loads(shipped.read_text()), []
    recipe = RECIPES[record["recipe"]]
    while record is not None:
        taken.insert(0, record["progress"]["step"])
        record = record["began_with"]
    shared = ["train", "--corpus", "x"]
    runs = [parsed([*shared, *flags.split()]) for flags in recipe.runs]
    assert [run.steps for run in runs] == taken


def test_a_tiny_head_does_not_lie_where_the_whole_recipe_would_take_it_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert heads_of("recipe", "medusa", "--tiny") == [Path("runs/tiny-medusa/medusa")]
    card = Path("runs/tiny-medusa/medusa/README.md")
    card.parent.mkdir(parents=True)
    card.touch()
    assert heads_of("recipe", "medusa", "--tiny") == []
    assert heads_of("recipe", "medusa") == [Path("runs/medusa/medusa")]


def test_only_the_run_that_ends_a_recipe_is_told_its_name() -> None:
    named = [run.recipe for run in runs_of("recipe", "eagle", "--tiny", "--out", "absent")]
    assert named == [None, None, "eagle"]


def heads_of(*recipe: str) -> list[Path]:
    return [run.head for run in runs_of(*recipe)]


def runs_of(*recipe: str) -> list[argparse.Namespace]:
    """What a recipe would have trained; none of it is."""
    runs = []

    def noted(words: Sequence[str]) -> argparse.Namespace:
        stage = parsed(words)
        if words[0] == "train":
            runs.append(stage)
        stage.command = lambda _: None
        return stage

    make(parsed(recipe), parse=noted)
    return runs


def test_the_shipped_corpus_is_there() -> None:
    assert SHIPPED_CORPUS.is_file()


def test_a_recipe_killed_in_its_second_run_goes_on_from_there_when_it_is_given_again(
    target: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "eagle_core.training", *words("eagle", target, tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "run-1").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        _, complaint = process.communicate()
    assert process.returncode == -signal.SIGKILL, complaint
    first = (tmp_path / "head-0" / "training.json").stat().st_mtime_ns
    assert main(words("eagle", target, tmp_path)) == 0
    assert (tmp_path / "eagle" / "README.md").exists()
    assert (tmp_path / "head-0" / "training.json").stat().st_mtime_ns == first
