"""A head's README, section by section, from its training record.

Knows the record's keys and English. Knows nothing of weights or files.
"""

from __future__ import annotations

from typing import Any

from eagle_core.drafters.medusa import NUM_BLOCKS
from eagle_core.drafters.small import NUM_LAYERS, SmallConfig
from eagle_core.training.replayed import ALPHA, Replays, over_questions, table

Record = dict[str, Any]

OPTIMIZER_WORDS = {"adamw": "AdamW", "muon": "Muon for the matrices and AdamW for the rest"}
DIVERGENCE_WORDS: dict[str, str] = {
    "forward_kl": "soft cross-entropy",
    "reverse_kl": "KL(draft law || target's law)",
    "tvd": "total variation distance",
    "tokens": "cross-entropy with the text's own tokens",
}
READS: dict[str, str] = {
    "feature+token": "the target's feature and the embedding of the token after it",
    "feature+unshifted": "the target's feature and the embedding of its own token",
    "feature": "the target's feature alone",
    "token": "the embeddings of tokens alone",
}


def card(record: Record, replays: Replays | None = None) -> str:
    """replays: the head's figures over question sets, once there are any."""
    sections = (
        _what_it_is(record),
        _what_it_reaches(record),
        *([over_questions(replays)] if replays is not None else []),
        _how_it_was_trained(record),
        f"## Data\n\n`{record['corpus']['file']}`. {record['corpus']['about']}",
        "## Licence\n\nApache-2.0.",
    )
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _what_it_is(record: Record) -> str:
    kind, built, reading = "EAGLE-1 head", "One decoder layer", _reading_of_eagle(record)
    if _is_eagle3(record):
        kind, reading = "EAGLE-3 head", _reading_of_eagle3(record)
    if NUM_BLOCKS in record["head"]:
        kind, reading = "Medusa head", _reading_of_medusa(record)
        built = f"{record['head'][NUM_BLOCKS]} residual blocks"
    if _is_small(record):
        kind, reading = "Small draft model", _reading_of_small(record)
        built = f"{record['head'][NUM_LAYERS]} decoder layers"
    return f"""
# {kind} for {record["target"]}

{built}, {record["num_parameters"] / 1e6:.2f} M parameters in {record["weights_dtype"]}.
{reading}
"""


def _reading_of_eagle(record: Record) -> str:
    reads = READS[record["head"].get("inputs", "feature+token")]
    return f"""\
It reads {reads}, and estimates the next
feature; the target's own unembedding, cut to the \
{record["draft_vocabulary"]["tokens"]:,} tokens of `draft_vocabulary.safetensors`
({_coverage(record)}), gives the draft law."""


def _reading_of_eagle3(record: Record) -> str:
    taps = ", ".join(map(str, record["head"]["taps"]))
    return f"""\
It reads the states entering the target's layers {taps}, fused into one, and the embedding of the
next token, and feeds its own output back; an unembedding of its own gives the draft law over \
{record["draft_vocabulary"]["tokens"]:,} tokens
({_coverage(record)})."""


def _reading_of_medusa(record: Record) -> str:
    return f"""\
Each reads the target's newest feature and guesses one token further ahead, without knowing what the
others guess; the target's own unembedding, cut to the \
{record["draft_vocabulary"]["tokens"]:,} tokens of `draft_vocabulary.safetensors`
({_coverage(record)}), gives the draft laws. Where other heads' cards
count estimated features, this one counts the tokens between feature and guess."""


def _reading_of_small(record: Record) -> str:
    return f"""\
It reads tokens alone, by the target's embeddings, as a model of classic speculative sampling; the
target's own unembedding, cut to the {record["draft_vocabulary"]["tokens"]:,} tokens of \
`draft_vocabulary.safetensors`
({_coverage(record)}), gives the draft law. Where other heads' cards
count estimated features, this one counts drafts."""


def _coverage(record: Record) -> str:
    share = record["draft_vocabulary"]["coverage_of_answer_tokens"]
    return f"{share:.1%} of the corpus' answer tokens"


def _what_it_reaches(record: Record) -> str:
    alphas, counted = record["validation"]["alphas"], record["validation"]["counted"]
    levels = table(
        ("", *(f"{level}-{ALPHA}" for level in range(len(alphas)))),
        (
            ("agreement", *(f"{share:.3f}" for share in alphas)),
            ("counted pairs", *(f"{count:,}" for count in counted)),
        ),
    )
    return f"""
## What it reaches

Over {record["corpus"]["held_out_conversations"]} held-out conversations of the corpus:

{levels}

n-{ALPHA}: share of pairs, among those whose input already holds n estimated features, where the
head's first choice is the target's greedy choice; counted in answers, where the n drafts before it
agreed and the text's last n tokens are the target's own greedy choices. The product form
1 + 0-{ALPHA} + 0-{ALPHA}·1-{ALPHA} + … of these is {record["validation"]["chain_length"]:.2f}.
"""


def _how_it_was_trained(record: Record) -> str:
    settings, progress, corpus = record["settings"], record["progress"], record["corpus"]
    epochs = progress["num_tokens"] / max(corpus["tokens"], 1)
    commands = "\n".join(_commands(record))
    return f"""
## How it was trained

From {_beginning(record)}:
{progress["num_tokens"]:,} tokens in {progress["step"]:,} steps, about {epochs:.1f} passes over \
{corpus["tokens"]:,} tokens in
{corpus["conversations"]:,} conversations, in {progress["seconds"] / 60:.0f} minutes on \
{record["machine"]}.
{_loss(settings)}
{OPTIMIZER_WORDS[settings["optimizer"]]}, learning rate {settings["learning_rate"]}, warm-up, \
then linear decay to zero;
batches of {settings["batch_tokens"]:,} tokens; clipping at {settings["clip_norm"]}; matrix \
products in {settings["precision"]}; features computed in {corpus["features_computed_in"]}.

```
{commands}
```

The weights are those of step {_best_step(record):,}, the best by validation during training.
{_beforehand(record)} `training.json` has the settings and the curve. The trainer wrote this card.
"""


def _beforehand(record: Record) -> str:
    before = """\
`python -m eagle_core.training features` with the same corpus, folder and number of tokens comes
before these commands."""
    if record["recipe"] is None:
        return before
    whole = f"`python -m eagle_core.training recipe {record['recipe']}`"
    return f"{before} {whole}\nmakes such a head from the text on."


def _beginning(record: Record) -> str:
    began = record["began_with"]
    if began:
        return f"the weights of a run over {_tokens_seen(began):,} tokens"
    if _is_eagle3(record):
        return "random weights, the target's unembedding, and `fc` fitted to its last state"
    return "random weights"


def _loss(settings: Record) -> str:
    weights, parts = settings["weights"], []
    if weights["feature"]:
        parts.append(f"{weights['feature']} * smooth-L1 on features")
    divergence = DIVERGENCE_WORDS[settings.get("objective", "forward_kl")]
    parts.append(f"{weights['token']} * {divergence} over the draft vocabulary")
    decay = weights["step_decay"]
    each = f", each counting {decay} of the one before" if decay != 1.0 else ""
    return (
        f"Loss: {' + '.join(parts)}, on answer tokens;\nnoise on input features: "
        f"{settings['noise']}; self-fed steps: {settings['self_fed_steps']}{each}."
        f"{_on_policy(settings)}"
    )


def _on_policy(settings: Record) -> str:
    share = settings.get("on_policy_share", 0.0)
    return (
        f"\nIn {share:.0%} of the steps it learned on answers that it had sampled itself."
        if share
        else ""
    )


def _is_small(record: Record) -> bool:
    return SmallConfig.is_of(record["head"])


def _is_eagle3(record: Record) -> bool:
    return "draft_vocab_size" in record["head"]


def _commands(record: Record | None) -> list[str]:
    """Those of earlier runs first, each with how far it went: a run may have been stopped."""
    if record is None:
        return []
    progress = record["progress"]
    reached = f"# went on to step {progress['step']:,}, {progress['num_tokens']:,} tokens"
    return [*_commands(record["began_with"]), record["command"], reached]


def _best_step(record: Record) -> int:
    """The validated step whose weights were kept."""
    validated = [row for row in record["curve"] if "chain_length" in row]
    best = max(validated, key=lambda row: row["chain_length"], default=record["progress"])
    step: int = best["step"]
    return step


def _tokens_seen(record: Record | None) -> int:
    """In this run and all that it began with."""
    if record is None:
        return 0
    seen: int = record["progress"]["num_tokens"]
    return seen + _tokens_seen(record["began_with"])
