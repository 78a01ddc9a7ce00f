"""A tiny chat target for the tests of the corpus writer: forty words, three marks, no spelling."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from eagle_core.targets.hf import HfTarget
from eagle_core.training.corpus.template import ChatTemplate

MARKS = ("<user>", "<bot>", "<end>")
TEMPLATE = (
    "{% for turn in messages %}"
    "{% if turn.role == 'user' %}<user> {% elif turn.role == 'assistant' %}<bot> "
    "{% else %}{{ raise_exception('no such role') }}{% endif %}"
    "{{ turn.content }} <end> {% endfor %}{% if add_generation_prompt %}<bot> {% endif %}"
)
NUM_WORDS = 40
END = 2


def word_tokenizer(
    template: str | None = TEMPLATE, *, num_words: int = NUM_WORDS
) -> PreTrainedTokenizerFast:
    words = [*MARKS, *(f"w{number}" for number in range(num_words)), "?"]
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]  # as its docs do
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, chat_template=template, eos_token="<end>"
    )


@cache
def tiny_chat(*, spread: float = 0.1, has_end: bool = True) -> HfTarget:
    """Nearly flat laws, so that turns end after some forty tokens, which attention does shape."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=NUM_WORDS + len(MARKS) + 1,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=spread,
        eos_token_id=END if has_end else None,
        bos_token_id=None,
        pad_token_id=None,
    )
    return HfTarget(LlamaForCausalLM(config), name="tiny-chat")


def tiny_template() -> ChatTemplate:
    return ChatTemplate(word_tokenizer(), target="tiny-chat", end_tokens=frozenset({END}))


def save_target(folder: Path, template: str | None = TEMPLATE) -> Path:
    tiny_chat().model.save_pretrained(folder)
    word_tokenizer(template).save_pretrained(folder)
    return folder
