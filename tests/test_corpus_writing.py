"""The corpus writer as a whole, over a tiny chat target in float32."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus_toys import (
    END,
    TEMPLATE,
    save_target,
    tiny_chat,
    tiny_template,
    word_tokenizer,
)
from torch import Tensor

from eagle_core.errors import CorpusError, TargetError
from eagle_core.training.corpus import load_corpus, writing
from eagle_core.training.corpus.__main__ import main
from eagle_core.training.corpus.batching import Batch
from eagle_core.training.corpus.conversations import Talk
from eagle_core.training.corpus.dialogue import (
    LARGEST_CAP,
    Conversation,
    Recipe,
    dialogue,
    loop_length,
    recipes,
    without_loop,
)
from eagle_core.training.corpus.notes import Origin, read_note
from eagle_core.training.corpus.shards import ShardFolder
from eagle_core.training.corpus.template import ChatTemplate, tokenizer_digest
from eagle_core.training.corpus.writing import Writer

LONGEST = 400
ORIGIN = Origin("tiny-chat", "float32", "digest", 0, None, "regenerated", 1.0, 0.1, LONGEST)
TALKS = (
    Talk(None, ("w1 w2 w3", "w4"), ("w5 w6", "w7")),
    Talk(None, ("w8 w9",), ()),
    Talk(None, ("w1 <end> w2",), ("w5",)),  # a mark within a text
    Talk("w10", ("w1",), ("w5",)),  # the toy's template knows no system
    Talk(None, ("w1 w2 w3",), ("w6",)),
)


def folder_at(path: Path, shard_tokens: int = 400) -> ShardFolder:
    return ShardFolder(path, ORIGIN, command="write", shard_tokens=shard_tokens)


def write(
    folder: ShardFolder,
    *,
    num_tokens: int = 1000,
    num_seats: int = 5,
    is_killed: Callable[[], bool] = lambda: False,
    made: object = None,
) -> None:
    Writer(
        recipes(seed=1, two_turn_share=0.5) if made is None else made,  # type: ignore[arg-type]
        Batch(tiny_chat(), num_seats=num_seats),
        folder,
        num_seats=num_seats,
        end_tokens=frozenset({END}),
        begin=lambda recipe: dialogue(recipe, tiny_template(), longest=LONGEST),
    ).run(is_done=lambda: is_killed() or folder.num_tokens >= num_tokens)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written")
    write(folder_at(path))
    return path


def contents(folder: Path) -> dict[str, list[int]]:
    return {
        f"{shard.name} {name}": array.tolist()
        for shard in sorted(folder.glob("*.npz"))
        for name, array in np.load(shard).items()
    }


# What is written.


def test_conversations_have_the_templates_form_and_mark_what_the_target_wrote(
    written: Path,
) -> None:
    corpus = load_corpus(written, vocab_size=64)
    tokenizer = word_tokenizer()
    for number in range(corpus.num_conversations):
        rows = corpus.rows(number)
        words = tokenizer.convert_ids_to_tokens(corpus.tokens[rows].tolist())
        marks = corpus.answer[rows]
        turns = " ".join(words).split("<user> ")[1:]
        assert words[0] == "<user>"
        assert all(turn.count("<bot>") == 1 for turn in turns)
        first = words.index("<bot>") + 1
        assert not marks[:first].any()
        assert marks[first]
        assert marks[-1]
        assert len(words) <= LONGEST


def dictated(*turns: str) -> tuple[Conversation | None, list[str]]:
    """A dialogue of two turns in which these are written, and what it had read before each."""
    template, read = tiny_template(), []
    made = dialogue(next(recipes(seed=0, two_turn_share=1.0)), template, longest=LONGEST)
    try:
        request = next(made)
        for turn in turns:
            read.append(template.decode(request.context))
            request = made.send(template.encode(turn))
    except StopIteration as ended:
        return ended.value, read
    raise AssertionError("the dialogue wants more turns")


def test_a_second_turn_follows_an_answer_that_has_ended() -> None:
    turns = ("w1 w2 w3 w4 <end>", "w5 <end>", "w6 w7 w8 w9 <end>", "w10 <end>")
    conversation, read = dictated(*turns)
    assert read == [
        "<user>",
        "<user> w1 w2 w3 w4 <end> <bot>",
        "<user> w1 w2 w3 w4 <end> <bot> w5 <end> <user>",
        "<user> w1 w2 w3 w4 <end> <bot> w5 <end> <user> w6 w7 w8 w9 <end> <bot>",
    ]
    assert conversation is not None
    assert tiny_template().decode(conversation.tokens) == f"{read[-1]} w10 <end>"
    answers = [
        t
        for t, is_answer in zip(conversation.tokens, conversation.answer, strict=True)
        if is_answer
    ]
    assert tiny_template().decode(answers) == "w5 <end> w10 <end>"


@pytest.mark.parametrize(
    ("turns", "kept"),
    [
        (("w1 w2 <end>",), None),  # hardly a question
        (("w1 w2 w3 w4 w5",), None),  # cut
        (("w1 <bot> w3 w4 <end>",), None),
        (("w1 w2 w3 w4 <end>", "<user> w5"), None),
        (("w1 w2 w3 w4 <end>", "w5 w6"), "w5 w6"),  # cut, so no second turn
        (("w1 w2 w3 w4 <end>", "w5 <user> w6 <end>"), "w5"),
        (("w1 w2 w3 w4 <end>", "w5 " + "w6 w7 " * 16), "w5 w6 w7"),
        (("w1 w2 w3 w4 <end>", "w5 <end>", "w6 <end>"), "w5 <end>"),
    ],
)
def test_what_is_cut_short_ends_the_conversation(turns: tuple[str, ...], kept: str | None) -> None:
    conversation, _ = dictated(*turns)
    text = None if conversation is None else tiny_template().decode(conversation.tokens)
    assert text == (None if kept is None else f"<user> w1 w2 w3 w4 <end> <bot> {kept}")


def test_every_greedy_token_is_the_targets_own_argmax(written: Path) -> None:
    for shard in sorted(written.glob("*.npz")):
        corpus, temperatures = load_corpus(shard, vocab_size=64), np.load(shard)["hundredths"]
        assert 0 in temperatures
        for number in np.flatnonzero(temperatures == 0):
            rows = corpus.rows(int(number))
            tokens = torch.from_numpy(corpus.tokens[rows].astype(np.int64))
            logits = tiny_chat().model(input_ids=tokens[None], use_cache=False).logits[0]
            is_answer = torch.from_numpy(corpus.answer[rows])[1:]
            assert torch.equal(logits.argmax(-1)[:-1][is_answer], tokens[1:][is_answer])


def test_styles_come_in_their_shares_and_the_note_says_so(written: Path) -> None:
    made = recipes(seed=3)
    temperatures = [next(made).answers.temperature for _ in range(40)]
    assert {t: temperatures.count(t) for t in (0.0, 0.7, 1.0)} == {0.0: 20, 0.7: 10, 1.0: 10}
    note = read_note(written / "corpus-00000.npz")
    assert note is not None
    assert note.origin == ORIGIN
    assert note.shares["own"] == 1.0
    assert note.shares["greedy"] + note.shares["sampled"] == pytest.approx(1.0, abs=1e-3)
    arrays = np.load(written / "corpus-00000.npz")
    assert note.num_conversations == len(arrays["lengths"])
    assert note.num_tokens == len(arrays["tokens"])
    assert note.num_answer_tokens == arrays["answer"].sum()


def test_shards_are_full_but_for_the_last(written: Path) -> None:
    sizes = [len(np.load(shard)["tokens"]) for shard in sorted(written.glob("*.npz"))]
    assert len(sizes) > 1
    assert all(400 <= size < 400 + LONGEST for size in sizes[:-1])
    assert sum(sizes) >= 1000


# What must not matter.


@pytest.mark.parametrize("num_seats", [2, 8])
def test_the_number_of_seats_does_not_change_the_corpus(
    written: Path, tmp_path: Path, num_seats: int
) -> None:
    write(folder_at(tmp_path), num_seats=num_seats)
    assert contents(tmp_path) == contents(written)


class Killed(BaseException):
    """What no code of ours catches."""


@pytest.mark.parametrize("passes", [60, 200])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    left = iter(range(passes))
    step = Batch.step

    def dying_step(self: Batch, tokens: list[int | None]) -> Tensor:
        if next(left, None) is None:
            raise Killed
        return step(self, tokens)

    folder = folder_at(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Batch, "step", dying_step)
        patched.setattr(writing, "SAVE_EVERY", 3)
        with pytest.raises(Killed):
            write(folder)
    assert folder_at(tmp_path).num_tokens + len(folder_at(tmp_path).waiting) > 0
    write(folder_at(tmp_path))
    assert contents(tmp_path) == contents(written)


def test_more_tokens_continue_a_finished_corpus(written: Path, tmp_path: Path) -> None:
    write(folder_at(tmp_path), num_tokens=500)
    assert contents(tmp_path) != contents(written)
    write(folder_at(tmp_path))
    assert contents(tmp_path) == contents(written)


# Loops and duplicates.


def test_a_loop_is_three_rounds_and_is_cut_to_one() -> None:
    start = [1, 2, 3]
    assert loop_length([*start, *[7, 8, 9, 10] * 7]) is None
    assert loop_length([*start, *[7, 8, 9, 10] * 8]) == 28
    assert without_loop([*start, *[7, 8, 9, 10] * 8]) == [1, 2, 3, 7, 8, 9, 10]
    assert loop_length([5] * 31) is None
    assert loop_length([5] * 32) == 31
    assert loop_length(list(range(40)) * 3) == 80
    assert loop_length(list(range(100)) * 3) is None
    assert loop_length([]) is None


def test_the_same_prompt_is_kept_once_also_after_resuming(tmp_path: Path) -> None:
    def conversation(number: int, word: int) -> Conversation:
        return Conversation(
            number, "own", 0.7, (0, word, 1, 9, number), (False, False, False, True, True)
        )

    folder = folder_at(tmp_path)
    assert folder.add(conversation(0, 5))
    assert not folder.add(conversation(1, 5))
    assert folder.add(conversation(2, 6))
    folder.save([conversation(4, 7)])
    again = folder_at(tmp_path)
    assert (again.num_conversations, again.num_tokens, again.next_number) == (2, 10, 3)
    assert not again.add(conversation(3, 6))
    assert again.waiting == (conversation(4, 7),)


# Conversations from a file.


def decoded(path: Path) -> list[tuple[str, list[int]]]:
    corpus = load_corpus(path, vocab_size=64)
    return [
        (
            tiny_template().decode(corpus.tokens[corpus.rows(n)].tolist()),
            corpus.answer[corpus.rows(n)].astype(int).tolist(),
        )
        for n in range(corpus.num_conversations)
    ]


def test_fixed_answers_are_kept_word_for_word_and_nothing_is_decoded(tmp_path: Path) -> None:
    write(folder_at(tmp_path), made=recipes(seed=0, talks=TALKS, answers="fixed"))
    assert decoded(tmp_path) == [
        (
            "<user> w1 w2 w3 <end> <bot> w5 w6 <end> <user> w4 <end> <bot> w7 <end>",
            [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1],
        ),
    ]
    note = read_note(tmp_path / "corpus-00000.npz")
    assert note is not None
    assert note.shares == {"fixed": 1.0}


def test_regenerated_answers_follow_the_files_questions(tmp_path: Path) -> None:
    write(folder_at(tmp_path), made=recipes(seed=0, talks=TALKS, answers="regenerated"))
    texts = [text for text, _ in decoded(tmp_path)]
    assert len(texts) == 2, "two cannot be put into the template, one is a duplicate"
    assert texts[0].startswith("<user> w1 w2 w3 <end> <bot> ")
    assert texts[1].startswith("<user> w8 w9 <end> <bot> ")
    assert not texts[0].startswith("<user> w1 w2 w3 <end> <bot> w5 w6 <end>")


def test_a_share_of_a_file_is_mixed_in_and_own_turns_go_on_after_its_end() -> None:
    made = recipes(seed=0, talks=TALKS, file_share=0.5)
    sources = [next(made).source for _ in range(40)]
    assert sources.count("regenerated") == len(TALKS)
    assert sources[0] != sources[-1] or "own" in sources
    assert sources[-20:] == ["own"] * 20
    only = recipes(seed=0, talks=TALKS)
    assert [recipe.talk for recipe in only] == list(TALKS)


# What is refused.


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_the_command_writes_a_corpus_that_only_its_own_tokenizer_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, out = save_target(tmp_path / "target"), tmp_path / "out"
    flags = ("--target", target, "--out", out, "--dtype", "float32", "--rows", 4, "--threads", 1)
    assert run(*flags, "--tokens", 500) == 0
    assert "conversations" in capsys.readouterr().err
    own = tokenizer_digest(word_tokenizer())
    corpus = load_corpus(out, vocab_size=64, tokenizer=lambda: own)
    assert corpus.num_tokens >= 500
    other = tokenizer_digest(word_tokenizer(num_words=39))
    with pytest.raises(CorpusError, match=r"another tokenizer, that of target; expected the"):
        load_corpus(out, vocab_size=64, tokenizer=lambda: other)
    assert run(*flags, "--tokens", 500, "--seed", 1) == 1
    assert "has seed 0; expected 1; try another --out folder" in capsys.readouterr().err


def test_shards_are_one_corpus_however_they_are_named(written: Path) -> None:
    files = sorted(written.glob("*.npz"))
    together = load_corpus(written, vocab_size=64)
    assert load_corpus(files, vocab_size=64).digest == together.digest
    assert load_corpus(files[:1], vocab_size=64).digest != together.digest
    assert load_corpus(files[0], vocab_size=64).num_tokens < together.num_tokens


def test_an_empty_folder_and_a_damaged_shard_end_in_one_sentence(
    written: Path, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match="holds no shard"):
        load_corpus(tmp_path, vocab_size=64)
    for file in written.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = tmp_path / "corpus-00000.npz"
    shard.write_bytes(shard.read_bytes()[:300])
    with pytest.raises(CorpusError, match=r"corpus-00000\.npz cannot be read"):
        load_corpus(tmp_path, vocab_size=64)
    with pytest.raises(CorpusError, match=r"corpus-00000\.npz cannot be read"):
        folder_at(tmp_path)


def test_a_full_disk_is_one_sentence_and_what_was_saved_stays(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder_at(tmp_path), num_tokens=500)
    before = contents(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = folder_at(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(np, "savez_compressed", full)
        with pytest.raises(CorpusError, match="the disk is full"):
            write(folder)
    assert contents(tmp_path) == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    write(folder_at(tmp_path))
    assert contents(tmp_path) == contents(written)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "has no chat template"),
        ("{{ messages[0].content }}", "does not keep turns"),
        (TEMPLATE.replace(" <end>", ""), "ends no answer with one of the target's end tokens"),
        ("{{ raise_exception('not today') }}", "cannot be used .not today."),
    ],
)
def test_a_target_without_a_usable_chat_template_is_refused(
    template: str | None, said: str
) -> None:
    with pytest.raises(TargetError, match=said):
        ChatTemplate(word_tokenizer(template), target="tiny", end_tokens=frozenset({END}))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--rows", 0), "--rows 0; expected 1 or more"),
        (("--file-share", 1.5), "--file-share 1.5; expected a share"),
        (("--seed", -1), "--seed -1"),
        (("--prompts", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
    ],
)
def test_a_wrong_flag_ends_in_one_sentence_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[object, ...], said: str
) -> None:
    assert run("--out", tmp_path / "out", "--target", tmp_path, *flags) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_pieces_of_a_template_put_together_are_the_template() -> None:
    template = tiny_template()
    turns = [("user", "w1 w2"), ("assistant", "w3"), ("user", "w4")]
    whole = word_tokenizer().apply_chat_template(
        [{"role": role, "content": text} for role, text in turns],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )
    first = (*template.opening(None), *template.encode("w1 w2"), *template.bridge)
    second = (*template.gap, *template.encode("w4"), *template.bridge)
    assert [*first, *template.encode("w3"), template.end, *second] == whole


def test_an_answer_never_passes_its_cap_or_the_longest_text() -> None:
    (recipe,) = recipes(seed=0, talks=TALKS[1:2])
    assert isinstance(recipe, Recipe)
    requests = dialogue(recipe, tiny_template(), longest=LONGEST)
    assert next(requests).max_tokens <= LARGEST_CAP
    (recipe,) = recipes(seed=0, talks=TALKS[1:2])
    assert next(dialogue(recipe, tiny_template(), longest=20)).max_tokens == 15


def test_a_note_is_json_with_its_command(written: Path) -> None:
    record = json.loads((written / "corpus-00000.note.json").read_text())
    assert record["command"] == "write"
    assert record["origin"]["tokenizer"] == "digest"
