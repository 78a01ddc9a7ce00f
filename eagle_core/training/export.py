"""Turn a run into a head folder with a card: weights, sizes, draft vocabulary, curve, figures.

Everything the card says is read from the run; nothing is typed by hand. Knows files and numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from eagle_core.drafters.head import EagleHead
from eagle_core.drafters.heads import save_head
from eagle_core.training.evaluate import Alphas
from eagle_core.training.files import write_atomically

RECORD, CARD = "training.json", "README.md"
OPTIMIZER_WORDS = {"adamw": "AdamW", "muon": "Muon for the matrices and AdamW for the rest"}
ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
READS: dict[str, str] = {
    "feature+token": "the target's feature and the embedding of the token after it",
    "feature+unshifted": "the target's feature and the embedding of its own token",
    "feature": "the target's feature alone",
    "token": "the embeddings of tokens alone",
}


@dataclass(frozen=True)
class Provenance:
    """What a reader must know to trust, or repeat, a head."""

    target: str
    command: str
    began_with: dict[str, Any] | None  # the training record of an earlier head
    machine: str
    corpus: str  # its file name
    corpus_digest: str
    features_computed_in: str  # the dtype of the target's passes
    num_conversations: int  # trained on
    num_tokens: int  # in those conversations
    num_held_out: int  # conversations that validated it
    vocabulary_coverage: float  # share of answer tokens in the draft vocabulary
    about_corpus: str  # where its text comes from, a paragraph


def export_head(
    folder: Path,
    head: EagleHead,
    *,
    vocabulary: Tensor,
    alphas: Alphas,
    state: dict[str, Any],
    curve: list[dict[str, Any]],
    provenance: Provenance,
) -> None:
    """Write or replace the whole folder, file by file; `state` is the run's checkpoint."""
    dtype = save_head(folder, head, vocabulary=vocabulary)
    record = {
        "target": provenance.target,
        "command": provenance.command,
        "began_with": provenance.began_with,
        "machine": provenance.machine,
        "weights_dtype": str(dtype).removeprefix("torch."),
        "num_parameters": sum(weight.numel() for weight in head.parameters()),
        "corpus": {
            "file": provenance.corpus,
            "sha256_of_arrays": provenance.corpus_digest,
            "features_computed_in": provenance.features_computed_in,
            "conversations": provenance.num_conversations,
            "tokens": provenance.num_tokens,
            "held_out_conversations": provenance.num_held_out,
        },
        "draft_vocabulary": {
            "tokens": len(vocabulary),
            "coverage_of_answer_tokens": round(provenance.vocabulary_coverage, 4),
        },
        "inputs": state["fingerprint"]["head"].get("inputs", "feature+token"),
        "settings": {
            name: value
            for name, value in state["fingerprint"].items()
            if name not in {"head", "corpus", "conversations", "draft_vocabulary"}
        },
        "progress": state["progress"],
        "validation": {
            "alphas": [round(share, 4) for share in alphas.shares],
            "counted": list(alphas.counted),
            "chain_length": round(alphas.chain_length, 3),
        },
        "curve": curve,
    }
    text = json.dumps(record, indent=1) + "\n"
    write_atomically(folder / RECORD, lambda path: path.write_text(text))
    words = card(record, about_corpus=provenance.about_corpus)
    write_atomically(folder / CARD, lambda path: path.write_text(words))


def card(record: dict[str, Any], *, about_corpus: str) -> str:
    """The head's README, from its training record."""
    settings, progress, corpus = record["settings"], record["progress"], record["corpus"]
    alphas = record["validation"]["alphas"]
    header = " | ".join(f"{n}-{ALPHA}" for n in range(len(alphas)))
    rule = " | ".join("---" for _ in alphas)
    values = " | ".join(f"{share:.3f}" for share in alphas)
    counted = " | ".join(f"{count:,}" for count in record["validation"]["counted"])
    commands = "\n".join(_commands(record))
    began = record["began_with"]
    earlier = (
        f"the weights of a run over {_tokens_seen(began):,} tokens" if began else "random weights"
    )
    epochs = progress["num_tokens"] / max(corpus["tokens"], 1)
    return f"""# EAGLE-1 head for {record["target"]}

One decoder layer, {record["num_parameters"] / 1e6:.2f} M parameters in {record["weights_dtype"]}. \
It reads {READS[record["inputs"]]},
and estimates the next feature; the target's own unembedding, cut to the
{record["draft_vocabulary"]["tokens"]:,} tokens of `draft_vocabulary.safetensors` \
({record["draft_vocabulary"]["coverage_of_answer_tokens"]:.1%} of the corpus' answer tokens),
gives the draft law.

## What it reaches

Over {corpus["held_out_conversations"]} held-out conversations of the corpus:

| | {header} |
| --- | {rule} |
| agreement | {values} |
| counted pairs | {counted} |

n-{ALPHA}: share of pairs, among those whose input already holds n estimated features, where the
head's first choice is the target's greedy choice; counted in answers, where the n drafts before it
agreed and the text's last n tokens are the target's own greedy choices. The product form
1 + 0-{ALPHA} + 0-{ALPHA}·1-{ALPHA} + … of these is {record["validation"]["chain_length"]:.2f}.

## How it was trained

From {earlier}:
{progress["num_tokens"]:,} tokens in {progress["step"]:,} steps, about {epochs:.1f} passes over \
{corpus["tokens"]:,} tokens in
{corpus["conversations"]:,} conversations, in {progress["seconds"] / 60:.0f} minutes on \
{record["machine"]}.
Loss: {settings["weights"]["feature"]} * smooth-L1 on features + {settings["weights"]["token"]} * \
soft cross-entropy over the draft vocabulary, on answer tokens;
noise on input features: {settings["noise"]}; self-fed steps: {settings["self_fed_steps"]}.
{OPTIMIZER_WORDS[settings["optimizer"]]}, learning rate {settings["learning_rate"]}, warm-up, \
then linear decay to zero;
batches of {settings["batch_tokens"]:,} tokens; clipping at {settings["clip_norm"]}; matrix \
products in {settings["precision"]}; features computed in {corpus["features_computed_in"]}.

```
{commands}
```

The weights are those of step {_best_step(record):,}, the best by validation during training.
`python -m eagle_core.training features` with the same corpus, folder and number of tokens comes
before these commands. `training.json` has the settings and the curve. The trainer wrote this card.

## Data

`{corpus["file"]}`. {about_corpus}

## Licence

Apache-2.0.
"""


def _commands(record: dict[str, Any] | None) -> list[str]:
    """Those of earlier runs first, each with how far it went: a run may have been stopped."""
    if record is None:
        return []
    progress = record["progress"]
    reached = f"# went on to step {progress['step']:,}, {progress['num_tokens']:,} tokens"
    return [*_commands(record["began_with"]), record["command"], reached]


def _best_step(record: dict[str, Any]) -> int:
    """The validated step whose weights were kept."""
    validated = [row for row in record["curve"] if "chain_length" in row]
    best = max(validated, key=lambda row: row["chain_length"], default=record["progress"])
    step: int = best["step"]
    return step


def _tokens_seen(record: dict[str, Any] | None) -> int:
    """In this run and all that it began with."""
    if record is None:
        return 0
    seen: int = record["progress"]["num_tokens"]
    return seen + _tokens_seen(record["began_with"])
