"""Files of conversations: what is read, what is refused, and where the reader is pointed to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle_core.errors import CorpusError
from eagle_core.training.corpus.conversations import Talk, read_talks

MESSAGES = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": " Why? "},
        {"role": "assistant", "content": "Because."},
        {"role": "user", "content": "And then?"},
    ]
}
SHAREGPT = {
    "conversations": [
        {"from": "gpt", "value": "I am listening."},
        {"from": "human", "value": "Why?"},
        {"from": "gpt", "value": "Because."},
        {"from": "tool", "value": "42"},
        {"from": "human", "value": "And then?"},
    ]
}
TALKS = (
    Talk("Be kind.", ("Why?", "And then?"), ("Because.",)),
    Talk(None, ("Why?",), ("Because.",)),
)


def test_both_forms_are_read_from_lines_or_from_one_array(tmp_path: Path) -> None:
    lines, array = tmp_path / "chats.jsonl", tmp_path / "chats.json"
    lines.write_text(f"{json.dumps(MESSAGES)}\n\n{json.dumps(SHAREGPT)}\n")
    array.write_text(json.dumps([MESSAGES, SHAREGPT], indent=1))
    assert read_talks(lines).talks == read_talks(array).talks == TALKS
    assert read_talks(lines).name != read_talks(array).name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no conversation with a user's turn"),
        ('{"messages": []}', "holds no conversation with a user's turn"),
        ('{"messages": []}\n{"messa', r"line 2 of .*chats\.jsonl is not JSON"),
        ('{"prompt": "Why?"}', r'line 1 of chats\.jsonl is no conversation; expected .*"messages"'),
        ("7", r"line 1 of chats\.jsonl is no conversation"),
        (
            '{"messages": [{"role": "user"}]}',
            r"line 1 of chats\.jsonl has a turn without .*content",
        ),
        ('{"messages": 3}', r"line 1 of chats\.jsonl has a turn without"),
        ('[{"conversations": [{"from": "human", "value": [1]}]}]', "record 1 .* is not text"),
    ],
)
def test_what_is_no_conversation_ends_in_a_sentence_that_names_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(text)
    with pytest.raises(CorpusError, match=said):
        read_talks(path)


def test_a_file_that_is_absent_or_no_text_ends_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    with pytest.raises(CorpusError, match="cannot be read"):
        read_talks(path)
    path.write_bytes(b'{"messages": "\xff"}')
    with pytest.raises(CorpusError, match="is not UTF-8 text"):
        read_talks(path)
