"""Whatever the command line is given: a result or one sentence, never a traceback."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from benches import tiny_bench
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES

from eagle_core import cli
from eagle_core.options import RULE_NAMES
from eagle_core.trace_json import load_trace

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
        *("auto", "chain:1", "chain:4", "tree:8", "tree:26", "chain:0", "bush", "", "tree:²"),
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
@given(st.sampled_from(PROMPTS), flags())
def test_generate_gives_a_result_or_one_sentence(prompt: str, given: list[str]) -> None:
    with with_bench(), tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "trace.json"
        wanted = ["generate", *given, f"--trace={saved}", "--", prompt]
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
