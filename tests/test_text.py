"""Token ids to text and back, with a byte-level tokenizer made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from eagle_core.errors import PromptError
from eagle_core.text import (
    HALF_CHARACTER,
    MAX_PROMPT_CHARACTERS,
    ChatText,
    StopStrings,
    TextStream,
)

TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHARACTERS = "aé€😀界 \n"  # one to four bytes each, so one to four tokens


@cache
def byte_level() -> Tokenizer:
    """A token per byte, and a few merged ones: ` a`, the two bytes of é, half of €."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    space, half = "Ġ", byte_letters("€")[:2]
    merges = [(space, "a"), tuple(byte_letters("é")), tuple(half)]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))  # type: ignore[arg-type]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")]
    )
    return tokenizer


def byte_letters(character: str) -> str:
    """How ByteLevel writes the bytes of a character, a letter per byte."""
    ((word, _),) = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    ).pre_tokenize_str(character)
    return word


@cache
def chat(*, has_template: bool = True) -> ChatText:
    return ChatText(
        PreTrainedTokenizerFast(
            tokenizer_object=byte_level(), chat_template=TEMPLATE if has_template else None
        )
    )


def ids_of(text: str) -> list[int]:
    return byte_level().encode(text, add_special_tokens=False).ids


def decode(tokens: Sequence[int]) -> str:
    return byte_level().decode(list(tokens), skip_special_tokens=True)


# The stream.


def test_a_character_comes_whole_with_its_last_token() -> None:
    ids = ids_of("a😀b")
    assert len(ids) == 6
    assert TextStream(decode).read(ids) == ("a", "", "", "", "😀", "b")


def test_a_token_may_hold_half_a_character() -> None:
    ids = ids_of("€é")
    assert len(ids) == 3
    assert TextStream(decode).read(ids) == ("", "€", "é")


def test_characters_side_by_side_come_one_by_one() -> None:
    texts = TextStream(decode).read(ids_of("😀界😀"))
    assert [text for text in texts if text] == ["😀", "界", "😀"]


def test_an_open_character_waits_from_read_to_read() -> None:
    stream, ids = TextStream(decode), ids_of("😀")
    assert [stream.read([token]) for token in ids] == [("",), ("",), ("",), ("😀",)]


def test_at_the_end_what_is_open_comes_with_the_last_token() -> None:
    assert TextStream(decode).read(ids_of("a😀")[:3], is_last=True) == ("a", "", HALF_CHARACTER)
    assert TextStream(decode).read([], is_last=True) == ()


def test_special_tokens_have_no_text_in_the_answer() -> None:
    end = byte_level().token_to_id("<|im_end|>")
    assert chat().stream().read([*ids_of("a"), end], is_last=True) == ("a", "")


@EXAMPLES
@given(st.text(st.sampled_from(CHARACTERS), max_size=30), st.integers(1, 7))
def test_texts_joined_are_the_text_and_none_is_half_a_character(text: str, size: int) -> None:
    ids, stream = ids_of(text), TextStream(decode)
    parts = [ids[at : at + size] for at in range(0, len(ids), size)]
    texts = [
        t for i, part in enumerate(parts) for t in stream.read(part, is_last=i == len(parts) - 1)
    ]
    assert len(texts) == len(ids)
    assert "".join(texts) == text
    assert not any(HALF_CHARACTER in piece for piece in texts)


code_points = st.integers(0, 0x10FFFF).filter(lambda point: not 0xD800 <= point < 0xE000)


@EXAMPLES
@given(st.lists(code_points, max_size=20).map(lambda points: "".join(map(chr, points))))
def test_any_unicode_text_comes_out_as_decoding_it_whole_would(text: str) -> None:
    ids = ids_of(text)
    assert "".join(TextStream(decode).read(ids, is_last=True)) == decode(ids)


@EXAMPLES
@given(st.lists(st.sampled_from(list("€😀a".encode())), max_size=12).map(bytes))
def test_broken_bytes_come_out_as_decoding_them_whole_would(text: bytes) -> None:
    def lossy(tokens: Sequence[int]) -> str:
        return bytes(tokens).decode("utf-8", errors="replace")

    assert "".join(TextStream(lossy).read(list(text), is_last=True)) == lossy(text)


def test_a_space_told_only_by_context_is_kept() -> None:
    """As sentencepiece decoders do: the first token's leading space is dropped."""
    words = ["▁the", "▁cat", "s"]

    def lossy(tokens: Sequence[int]) -> str:
        return "".join(words[token] for token in tokens).replace("▁", " ").removeprefix(" ")

    assert TextStream(lossy).read([0, 1, 2, 1]) == ("the", " cat", "s", " cat")


# Pieces.


def test_a_piece_shows_spaces_and_names_special_tokens() -> None:
    (space_a,) = ids_of(" a")
    assert chat().piece(space_a) == " a"
    assert chat().piece(byte_level().token_to_id("<|im_start|>")) == "<|im_start|>"


def test_a_piece_of_half_a_character_is_shown_as_one() -> None:
    assert chat().piece(ids_of("😀")[0]) == HALF_CHARACTER


# Prompts.


def test_a_prompt_becomes_one_user_turn_up_to_the_answer() -> None:
    ids = chat().encode_chat("hi é")
    text = byte_level().decode(ids, skip_special_tokens=False)
    assert text == "<|im_start|>user\nhi é<|im_end|>\n<|im_start|>assistant\n"
    assert ids.count(byte_level().token_to_id("<|im_start|>")) == 2


def test_a_tokenizer_without_a_template_gets_the_bare_prompt() -> None:
    assert chat(has_template=False).encode_chat(" a é") == ids_of(" a é")


@pytest.mark.parametrize("prompt", ["", " ", "\n\t  \n"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(PromptError, match="the prompt is empty; try typing a question first"):
        chat().encode_chat(prompt)


@pytest.mark.parametrize("prompt", ["\udcff", "why \ud800?"])
def test_a_prompt_of_broken_characters_is_refused(prompt: str) -> None:
    with pytest.raises(PromptError, match="a prompt with broken characters"):
        chat().encode_chat(prompt)


def test_a_prompt_of_100000_characters_is_refused_in_one_sentence() -> None:
    with pytest.raises(PromptError, match="a prompt of 100,000 characters; expected at most"):
        chat().encode_chat("x" * 100_000)


def test_the_longest_prompt_allowed_is_read() -> None:
    assert len(chat(has_template=False).encode_chat("x" * MAX_PROMPT_CHARACTERS)) > 0


# Stop strings.


def as_bytes(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode(errors="replace")


def shown(text: str, *stop: str, steps: int = 1) -> tuple[str, ...]:
    """What a stream of bytes gives out, so many bytes at a time; the last step ends it."""
    stream, ids = TextStream(as_bytes, stop=stop), list(text.encode())
    chunks = [ids[at : at + steps] for at in range(0, len(ids), steps)]
    return tuple("".join(stream.read(chunk, is_last=chunk is chunks[-1])) for chunk in chunks)


def test_text_before_a_stop_string_is_shown_and_nothing_of_the_string() -> None:
    assert shown("say ###bye", "###") == ("s", "a", "y", " ", "", "", "", "", "", "")


def test_what_only_began_like_a_stop_string_is_shown_once_that_is_known() -> None:
    assert shown("a##b", "###") == ("a", "", "", "##b")
    assert shown("a##", "###") == ("a", "", "##"), "at the end nothing is kept back"


def test_the_earliest_of_several_stop_strings_wins() -> None:
    assert "".join(shown("one two three", "three", "two")) == "one "
    assert "".join(shown("ababc", "babc", "abc")) == "a"


texts_with_stops = st.text("ab€#", min_size=1, max_size=30)
stops = st.lists(st.text("ab€#", min_size=1, max_size=4), min_size=1, max_size=3)


@EXAMPLES
@given(texts_with_stops, stops, st.integers(1, 7))
def test_a_stream_shows_exactly_what_stands_before_the_first_stop(
    text: str, stop: list[str], steps: int
) -> None:
    places = [text.find(string) for string in stop if string in text]
    pieces = shown(text, *stop, steps=steps)
    assert "".join(pieces) == text[: min(places, default=len(text))]
    assert HALF_CHARACTER not in "".join(pieces)


@EXAMPLES
@given(texts_with_stops, stops, st.integers(1, 7))
def test_the_token_that_completes_a_stop_string_is_found_wherever_steps_end(
    text: str, stop: list[str], steps: int
) -> None:
    ends = [text.find(string) + len(string) for string in stop if string in text]
    expected = len(text[: min(ends)].encode()) if ends else None
    strings, ids = StopStrings(tuple(stop), as_bytes), list(text.encode())
    found = None
    for at in range(0, len(ids), steps):
        num = strings.num_until(ids[:at], ids[at : at + steps])
        if num is not None:
            found = at + num
            break
    assert found == expected


def test_only_the_end_of_a_long_answer_is_decoded_to_look_for_stops() -> None:
    longest = []

    def watched(tokens: Sequence[int]) -> str:
        longest.append(len(tokens))
        return as_bytes(tokens)

    assert StopStrings(("###",), watched).num_until([97] * 5_000, [97, 98]) is None
    assert max(longest) < 50


# Conversations.


def turns(*contents: str) -> list[dict[str, str]]:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def test_a_conversation_is_rendered_turn_by_turn_up_to_the_answer() -> None:
    ids = chat().encode_chat([{"role": "system", "content": "s"}, *turns("a", "b", "c")])
    assert byte_level().decode(ids, skip_special_tokens=False) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert chat().encode_chat(turns("a")) == chat().encode_chat("a")


@pytest.mark.parametrize("renders_one", [True, False])
def test_no_beginning_of_text_is_added_to_what_the_template_renders(renders_one: bool) -> None:
    """The tokenizer adds one by itself to bare text, which a template must not get twice."""
    tokenizer = Tokenizer.from_str(byte_level().to_str())
    tokenizer.add_special_tokens([AddedToken("<bos>", special=True)])
    begin = tokenizer.token_to_id("<bos>")
    tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="<bos> $A", special_tokens=[("<bos>", begin)]
    )
    template = ("{{ bos_token }}" if renders_one else "") + TEMPLATE
    text = ChatText(
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token="<bos>", chat_template=template
        )
    )
    assert tokenizer.encode("a").ids.count(begin) == 1
    for prompt in ("a", turns("a", "b", "c")):
        assert text.encode_chat(prompt).count(begin) == int(renders_one)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conversation", "said"),
    [
        ([], "asks nothing; expected a user's turn"),
        (turns("a", "b"), "asks nothing; expected a user's turn"),
        (turns("a", "b", " "), "the prompt is empty"),
        (turns("a", "\ud800", "c"), "broken characters"),
        ([{"role": "wizard", "content": "a"}, *turns("a")], "a turn of role 'wizard'"),
        ([{"role": "user"}, *turns("a")], "content in text"),
    ],
)
def test_what_is_no_conversation_is_refused(conversation: list[dict[str, str]], said: str) -> None:
    with pytest.raises(PromptError, match=said):
        chat().encode_chat(conversation)


def test_a_template_that_refuses_a_conversation_is_quoted_in_one_sentence() -> None:
    strict = "{% if messages|length > 1 %}{{ raise_exception('only one turn') }}{% endif %}"
    text = ChatText(
        PreTrainedTokenizerFast(tokenizer_object=byte_level(), chat_template=strict + TEMPLATE)
    )
    with pytest.raises(PromptError, match=r"refuses \(only one turn\); expected turns of user"):
        text.encode_chat(turns("a", "b", "c"))
    with pytest.raises(PromptError, match="3 turns for a target without a chat template"):
        chat(has_template=False).encode_chat(turns("a", "b", "c"))
