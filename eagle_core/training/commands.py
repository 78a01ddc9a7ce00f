"""The trainer's commands: join target, corpus, features, run and export.

Knows everything in this room; decides nothing that is not an option.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eagle_core.drafters.heads import Head, load_head
from eagle_core.errors import CorpusError, HeadError
from eagle_core.targets.base import Target, TargetSpec
from eagle_core.targets.loading import load_target, load_tokenizer
from eagle_core.targets.store import resolve
from eagle_core.training.batches import batch_of, packed, with_pairs
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.corpus import (
    Corpus,
    DraftVocabulary,
    Split,
    draft_vocabulary,
    load_corpus,
    split,
)
from eagle_core.training.corpus.template import tokenizer_digest
from eagle_core.training.evaluate import Validator
from eagle_core.training.export import RECORD, Provenance, export_head
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.features import compute_features
from eagle_core.training.feed import TrainingData
from eagle_core.training.loop import Trainer
from eagle_core.training.methods import (
    USUAL,
    Sizes,
    fit_to_target,
    head_again,
    new_head,
    states_for,
)
from eagle_core.training.objectives import LossWeights
from eagle_core.training.processes import Processes
from eagle_core.training.settings import Intervals, TrainingSettings

VALIDATION_BATCH_TOKENS = 2048
DEFAULT_MINUTES = 60.0


@dataclass(frozen=True, eq=False)
class Material:
    """What every command but `features` works with."""

    target: Target
    corpus: Corpus
    store: FeatureStore
    split: Split  # of the conversations whose features are there
    vocabulary: DraftVocabulary


def compute(options: argparse.Namespace) -> None:
    target = _target(options)
    corpus = _corpus(options, target)
    compute_features(
        corpus,
        target,
        options.features,
        taps=tuple(options.taps or states_for(options.method, target.spec)),
        max_tokens=options.max_tokens,
        num_workers=options.workers,
    )


def train(options: argparse.Namespace) -> None:
    processes = Processes.joined(device=options.device)
    options.device = processes.device
    material = _material(options)
    folder = RunFolder(options.run)
    head = _new_head(options, material)
    if options.start_from is not None and processes.is_main:
        folder.note_origin(options.start_from / RECORD)
    trainer = Trainer(
        head,
        material.target,
        TrainingData(
            material.corpus, material.store, material.split.training, material.vocabulary.tokens
        ),
        folder,
        settings=_settings(options),
        intervals=Intervals(
            log=options.log_every,
            validation=options.validate_every,
            checkpoint=options.checkpoint_every,
        ),
        validator=_validator(options, material, head),
        processes=processes,
    )
    if processes.is_main:
        folder.note_command(shlex.join(["python", "-m", "eagle_core.training", *options.words]))
    trainer.run()
    if options.head is not None and processes.is_main:
        _export(options, material)


def export(options: argparse.Namespace) -> None:
    if options.head is None:
        raise HeadError("no folder to export to", hint="--head FOLDER")
    _export(options, _material(options))


def _export(options: argparse.Namespace, material: Material) -> None:
    folder = RunFolder(options.run)
    state = folder.load_checkpoint()
    if state is None:
        raise CorpusError(f"no run in {options.run}", hint="`train` first")
    head = head_again(state["fingerprint"]["head"])
    head.load_state_dict(folder.load_best())
    head.to(material.target.spec.device)
    corpus = material.corpus
    training = material.split.training[: state["fingerprint"]["conversations"]]
    held_out = with_pairs(corpus, material.split.validation)[: options.held_out]
    export_head(
        options.head,
        head,
        vocabulary=material.vocabulary.tokens,
        alphas=_validator(options, material, head).alphas(head),
        state=state,
        curve=folder.curve(),
        provenance=Provenance(
            target=material.target.spec.name,
            command=folder.command(),
            began_with=folder.origin(),
            machine=options.machine,
            corpus=options.corpus.name,
            corpus_digest=corpus.digest,
            features_computed_in=material.store.computed_in,
            num_conversations=len(training),
            num_tokens=int(corpus.lengths[list(training)].sum()),
            num_held_out=len(held_out),
            vocabulary_coverage=material.vocabulary.coverage,
            about_corpus=options.about_corpus,
            recipe=options.recipe,
        ),
    )


def _target(options: argparse.Namespace) -> Target:
    return load_target(
        resolve(options.target, cache=options.cache),
        device=options.device,
        dtype=getattr(torch, options.dtype) if options.dtype else None,
    )


def _corpus(options: argparse.Namespace, target: Target) -> Corpus:
    """Refused where its note names another tokenizer than the target's."""
    source = resolve(options.target, cache=options.cache)
    return load_corpus(
        options.corpus,
        vocab_size=target.spec.vocab_size,
        tokenizer=lambda: tokenizer_digest(load_tokenizer(source)),
    )


def _material(options: argparse.Namespace) -> Material:
    target = _target(options)
    corpus = _corpus(options, target)
    store = FeatureStore(*options.features, corpus=corpus, spec=target.spec)
    num_tokens = min(store.num_tokens_done, options.max_tokens or corpus.num_tokens)
    vocabulary = draft_vocabulary(
        corpus,
        split(corpus.num_conversations).training,
        size=options.draft_vocabulary,
        vocab_size=target.spec.vocab_size,
    )
    parts = split(corpus.num_conversations_within(num_tokens))
    return Material(target, corpus, store, parts, vocabulary)


def _validator(options: argparse.Namespace, material: Material, head: Head) -> Validator:
    corpus, spec = material.corpus, material.target.spec
    taps = head.taps(spec.num_layers)
    held_out = with_pairs(corpus, material.split.validation)[: options.held_out]
    batches = (
        batch_of(corpus, material.store, part, taps=taps, device=spec.device)
        for part in packed(corpus, held_out, batch_tokens=VALIDATION_BATCH_TOKENS)
    )
    return Validator(batches, material.target, vocabulary=material.vocabulary.tokens)


def _new_head(options: argparse.Namespace, material: Material) -> Head:
    spec = material.target.spec
    sizes = Sizes(
        kv_heads=options.kv_heads,
        intermediate_size=options.intermediate_size,
        rope_theta=options.rope_theta,
        max_positions=options.max_positions,
        inputs=options.inputs,
        taps=tuple(options.taps) if options.taps else None,
        num_blocks=1 + _usual(options)["self_fed_steps"],
        num_layers=options.layers,
    )
    torch.manual_seed(options.seed)
    head = new_head(options.method, sizes, spec, num_drafted=len(material.vocabulary.tokens))
    material.store.require(head.taps(spec.num_layers))
    if options.start_from is None:
        fit_to_target(head, material.target, material.store, material.vocabulary.tokens)
    else:
        _take_weights(head, options.start_from, spec, material.vocabulary.tokens)
    return head.to(spec.device)


def _settings(options: argparse.Namespace) -> TrainingSettings:
    usual = _usual(options)
    minutes = options.minutes or (None if options.steps else DEFAULT_MINUTES)
    return TrainingSettings(
        num_steps=options.steps,
        minutes=minutes,
        batch_tokens=options.batch_tokens,
        precision=options.precision,
        optimizer=options.optimizer,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        clip_norm=options.clip_norm,
        warmup_share=options.warmup_share,
        noise=usual["noise"],
        weights=LossWeights(usual["feature_weight"], options.token_weight, usual["step_decay"]),
        self_fed_steps=usual["self_fed_steps"],
        objective=options.objective,
        on_policy_share=options.on_policy_share,
        seed=options.seed,
    )


def _usual(options: argparse.Namespace) -> dict[str, Any]:
    """What the method is usually trained with, but for what was chosen."""
    chosen = {name: getattr(options, name) for name in USUAL[options.method]}
    return USUAL[options.method] | {k: v for k, v in chosen.items() if v is not None}


def _take_weights(head: Head, folder: Path, spec: TargetSpec, drafted: Tensor) -> None:
    """Refused where a row of the earlier head's own unembedding would change its token."""
    earlier = load_head(folder, spec=spec, dtype=torch.float32)
    if earlier.head.config != head.config:
        raise HeadError(
            f"head {folder} has the sizes {earlier.head.config}", expected=str(head.config)
        )
    own = earlier.vocabulary  # None: all tokens, as many as `head` then drafts
    if head.lm_head is not None and own is not None and not torch.equal(own.cpu(), drafted.cpu()):
        raise HeadError(
            f"head {folder} has rows of its lm_head for other tokens than this run drafts",
            expected=f"the {len(drafted)} tokens of this run in their order",
            hint="the corpus that it was trained on, or a run without --start-from",
        )
    head.load_state_dict(earlier.head.state_dict())
