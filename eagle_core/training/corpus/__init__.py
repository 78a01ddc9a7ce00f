"""Conversations to train on: read, counted, and written by the target itself.

conversations (files) ─┐
recipes ───────────────┴▶ dialogue ─▶ writing ─▶ shards ─▶ arrays ─▶ the trainer
                 chat template ┘        └ batching: many seats, one pass of the target

python -m eagle_core.training.corpus --help
"""

from eagle_core.training.corpus.arrays import (
    Corpus,
    DraftVocabulary,
    Split,
    draft_vocabulary,
    load_corpus,
    split,
)

__all__ = ["Corpus", "DraftVocabulary", "Split", "draft_vocabulary", "load_corpus", "split"]
