"""Whatever the command line is given: a result or one sentence, never a traceback."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from benches import tiny_bench
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES, plain_and_eagle
from proofs import world

from eagle_core import cli
from eagle_core.bench import __main__ as bench
from eagle_core.bench.replay import __main__ as replay
from eagle_core.drafters.heads import save_head
from eagle_core.errors import HeadError
from eagle_core.options import RULE_NAMES
from eagle_core.trace_json import dump_trace, load_trace

NUMBERS = ["0", "1", "-1", "0.5", "0.7", "2", "9", "1e300", "-1e300", "nan", "inf", "", "x", "٣"]
WHOLE = ["0", "1", "5", "-1", "1.5", "9" * 30, "", "x"]
VALUES: dict[str, list[str]] = {
    "--max-new-tokens": ["1", "2", "7", "0", "-3", "8193", "2.5", "x"],
    "--temperature": NUMBERS,
    "--top-p": NUMBERS,
    "--top-k": WHOLE,
    "--min-p": NUMBERS,
    "--repetition-penalty": NUMBERS,
    "--presence-penalty": NUMBERS,
    "--frequency-penalty": NUMBERS,
    "--seed": WHOLE,
    "--stop": ["a", "ab", "", "\udcff", "x" * 201, "\n"],
    "--tree": [
        *(
            "auto",
            "chain:1",
            "chain:4",
            "tree:8",
            "tree:26",
            "dynamic:5",
            "chain:0",
            "bush",
            "",
            "tree:²",
        ),
        *("ranks:0.1.00", "ranks:0.00", "ranks:1", "ranks:"),
    ],
    "--rule": [*RULE_NAMES, "best", ""],
}
PROMPTS = ["why", "", " ", "\udcff", "x" * 200, "日本", "-1"]


@st.composite
def flags(draw: st.DrawFn) -> list[str]:
    """A few flags at most, so that some combinations are valid; the length is always small."""
    chosen = draw(st.lists(st.sampled_from([*VALUES]), max_size=4, unique=True))
    given = {name: draw(st.sampled_from(VALUES[name])) for name in chosen}
    given.setdefault("--max-new-tokens", "5")
    return [f"{name}={value}" for name, value in given.items()]


def said(main: Callable[[list[str]], int], arguments: list[str]) -> tuple[int, str, str]:
    """Exit code and both streams, as strict about text as a terminal's; argparse exits with 2."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    for stream in (out, err):
        stream.seek(0)
    return code, out.read(), err.read()


def assert_result_or_sentence(code: int, out: str, err: str, *, result: str) -> None:
    if code == 0:
        assert result in out
        return
    last = err.rstrip("\n").splitlines()[-1]
    assert "error: " in last
    assert len(last) < 600
    if code == 1:
        assert err.startswith("error: ")
        assert err.count("\n") == 1
    else:
        assert code == 2, "argparse's number for a wrong command"
        assert err.startswith("usage: ")


def with_bench() -> contextlib.AbstractContextManager[object]:
    return mock.patch.object(cli, "load_workbench", return_value=tiny_bench())


@settings(EXAMPLES, max_examples=100)
@given(st.sampled_from(PROMPTS), flags(), st.sampled_from([[], ["--record-dropped"]]))
def test_generate_gives_a_result_or_one_sentence(
    prompt: str, given: list[str], more: list[str]
) -> None:
    with with_bench(), tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "trace.json"
        wanted = ["generate", *given, *more, f"--trace={saved}", "--", prompt]
        code, out, err = said(cli.main, wanted)
        if code == 0:
            load_trace(saved.read_text("utf-8"))
    assert_result_or_sentence(code, out, err, result="τ, tokens per pass")


@settings(EXAMPLES, max_examples=30)
@given(flags(), st.sampled_from(["1", "20", "0", "-1", "x"]))
def test_prove_gives_a_verdict_or_one_sentence(given: list[str], samples: str) -> None:
    with with_bench():
        code, out, err = said(cli.main, ["prove", *given, f"--samples={samples}", "--prompt=hi"])
    if code == 1 and out:
        assert out.splitlines()[-1].startswith("FAILED")
        assert "--rule=lossy_typical" in given
        return
    bars, _, error = err.rpartition("\r")
    assert_result_or_sentence(code, out, error if bars and code else err, result="HOLDS")


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("temperature", ["0", "0.2", "1"])
def test_every_rule_at_every_kind_of_temperature(rule: str, temperature: str) -> None:
    given = [f"--rule={rule}", f"--temperature={temperature}", "--max-new-tokens=5"]
    with with_bench():
        code, out, err = said(cli.main, ["generate", "why", *given])
    assert_result_or_sentence(code, out, err, result=f"T = {temperature}")
    is_greedy = temperature == "0"
    assert (code == 0) == (rule == "auto" or (rule == "greedy") == is_greedy)
    assert ("LOSSY" in out) == (code == 0 and rule == "lossy_typical")


# The other commands, with files and folders of any kind.

QUESTIONS = {
    "good": '{"question_id": 1, "turns": ["why"]}\n{"turns": ["a", "b"]}\n',
    "empty": "",
    "no JSON": "why is the sky blue\n",
    "no text": '{"turns": [3]}\n',
    "broken text": '{"turns": ["\\udcff"]}\n',
}
COUNTS = ["1", "2", "9", "0", "-1", "x", ""]
TREES = [*VALUES["--tree"], "chain:2,tree:4", ",", "auto,auto", "chain:1,,", "bush,chain:1"]


def mostly(good: str, *odd: str) -> st.SearchStrategy[str]:
    """So that several values drawn together are often all good."""
    return st.sampled_from([good] * 3 * len(odd) + [*odd])


def place(name: str) -> st.SearchStrategy[str]:
    """A new file, or else a file of something else, a folder, a place below a file."""
    return mostly(f"new-{name}", "file", "folder", "file/below")


QUESTION_FILES = mostly("good", *QUESTIONS, "absent")


def made_in(folder: Path) -> None:
    (folder / "file").write_text("something else\n")
    (folder / "folder").mkdir()
    for name, text in QUESTIONS.items():
        (folder / f"{name}.jsonl").write_text(text)


def ended_in_words(command: Any, arguments: list[str], *, result: str) -> None:
    """With bars, which stand on stderr before a sentence, left out."""
    with mock.patch.object(command, "load_workbench", return_value=tiny_bench()):
        code, out, err = said(command.main, arguments)
    at = max(err.rfind("error: "), 0)
    is_sentence = code == 1 and "error: " in err
    assert_result_or_sentence(code, out, err[at:] if is_sentence else err, result=result)


@pytest.mark.filterwarnings("ignore::tqdm.TqdmWarning")
@settings(EXAMPLES, max_examples=50)
@given(
    st.one_of(st.just(["--max-new-tokens=5", "--temperature=0.7"]), flags()),
    QUESTION_FILES,
    mostly("2", *COUNTS),
    mostly("chain:2,tree:4", *TREES),
    place("rows"),
)
def test_bench_gives_a_table_or_one_sentence(
    given: list[str], questions: str, count: str, tree: str, rows: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        made_in(Path(name))
        more = [f"--count={count}", f"--rows={name}/{rows}", f"--tree={tree}"]
        ended_in_words(bench, [f"{name}/{questions}.jsonl", *given, *more], result="τ = Σ")


@pytest.mark.filterwarnings("ignore::tqdm.TqdmWarning")
@settings(EXAMPLES, max_examples=50)
@given(
    QUESTION_FILES,
    mostly("2", *COUNTS),
    mostly("chain:2,tree:4", *TREES),
    mostly("5", *VALUES["--max-new-tokens"]),
    place("answers"),
    place("json"),
)
def test_replay_gives_figures_or_one_sentence(
    questions: str, count: str, tree: str, length: str, answers: str, figures: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        made_in(Path(name))
        more = [f"--count={count}", f"--tree={tree}", f"--max-new-tokens={length}"]
        more += [f"--answers={name}/{answers}", f"--json={name}/{figures}"]
        ended_in_words(replay, [f"{name}/{questions}.jsonl", *more], result="n-alpha")


@settings(EXAMPLES, max_examples=50)
@given(
    mostly("head", "folder", "file", "absent", "", "\udcff", "eagle/absent"),
    mostly("eagle", "eagle3", "specforge", "speculators", "best", ""),
    place("to"),
)
def test_convert_writes_a_head_or_says_one_sentence(head: str, layout: str, to: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        made_in(Path(name))
        save_head(Path(name) / "head", world(0).head)
        source = f"{name}/{head}" if head in {"head", "folder", "file", "absent"} else head
        wanted = ["convert", f"--layout={layout}", f"--to={name}/{to}", "--", source]
        with mock.patch("eagle_core.workbench.fetch", side_effect=HeadError("no hub here")):
            code, out, err = said(cli.main, wanted)
        if code == 0:
            assert "head written to" in err
            assert (Path(name) / to / "config.json").exists()
    assert_result_or_sentence(code, out, err, result="")


@settings(EXAMPLES, max_examples=50)
@given(
    st.lists(mostly("good", "file", "folder", "absent"), max_size=3),
    mostly("table", "json", "csv", "best", ""),
    mostly("3", "0", "-1", "x", "9" * 30),
)
def test_report_says_where_a_head_fails_or_one_sentence(
    traces: list[str], form: str, misses: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        made_in(Path(name))
        (Path(name) / "good").write_text(dump_trace(plain_and_eagle()))
        paths = [f"{name}/{trace}" for trace in traces]
        wanted = ["report", f"--form={form}", f"--misses={misses}", *paths]
        assert_result_or_sentence(*said(cli.main, wanted), result="accepted")
