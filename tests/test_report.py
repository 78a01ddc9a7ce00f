"""Head reports: what is counted, from which places, and the forms they are written in.

The made EAGLE lane:  5 ── 6 ── 7 ── (1, came 8)      8 ── (2, came 9)
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from made import chain_step, lane, plain_and_eagle, prefill, trace

from eagle_core import cli
from eagle_core.citation import CITATION
from eagle_core.errors import TraceError
from eagle_core.report import Miss, TokenClass, class_of, report_on
from eagle_core.report_forms import report_csv, report_json, report_table
from eagle_core.trace import Trace
from eagle_core.trace_json import dump_trace

WORDS = {1: " cat", 2: "!", 5: "The", 6: " sun", 7: "ny", 8: " 42", 9: "\n"}


def spoken(made: Trace) -> Trace:
    """With the tokens' texts and looks in WORDS."""
    lanes = [
        replace(one, texts=tuple(tuple(map(WORDS.__getitem__, e.committed)) for e in one.events))
        for one in made.lanes
    ]
    return replace(made, lanes=tuple(lanes), pieces=WORDS)


def made() -> Trace:
    return spoken(plain_and_eagle())


@pytest.mark.parametrize(
    ("piece", "before", "expected"),
    [
        *((" sun", "the", "word start"), ("sun", "", "word start"), ("sun", "the ", "word start")),
        *(("ny", " sun", "word inside"), ("'t", "don", "word inside"), ("é", "caf", "word inside")),
        *((" 42", "is", "number"), ("1.5", "", "number"), ("½", "a", "number")),
        *((".", "end", "punctuation"), (' "', "said", "punctuation"), ("```", "\n", "punctuation")),
        *(("\n\n", "end.", "whitespace"), ("  ", "\n", "whitespace")),
        *(("<|im_end|>", "end", "special"), ("</s>", "", "special"), ("", "é", "special")),
        ("<br>", "", "word start"),
    ],
)
def test_a_token_has_the_class_of_its_looks_and_place(
    piece: str, before: str, expected: TokenClass
) -> None:
    assert class_of(piece, before=before) == expected


def test_places_are_counted_by_depth_and_by_the_class_of_what_came() -> None:
    report = report_on([made()])
    assert [(c.at, c.num_reached, c.num_accepted) for c in report.by_depth] == [
        (1, 2, 1),
        (2, 1, 1),
        (3, 1, 0),
    ]
    counted = {c.token_class: (c.num_reached, c.num_accepted) for c in report.by_class}
    assert counted == {
        "word start": (1, 1),
        "word inside": (1, 1),
        "number": (1, 0),
        "whitespace": (1, 0),
        "punctuation": (0, 0),
        "special": (0, 0),
    }
    assert report.tau == made().lane("eagle").tau == 2.0


def test_depths_agree_with_what_a_lane_says_of_itself() -> None:
    assert report_on([made()]).by_depth == made().lane("eagle").accepted_by_depth


def test_misses_tell_what_was_drafted_what_came_and_after_what() -> None:
    report = report_on([made()])
    assert report.misses == (
        Miss(" cat", " 42", 1, ("The sunny",)),
        Miss("!", "\n", 1, ("The sunny 42",)),
    )
    assert report.num_misses == 2


def test_traces_add_up_and_the_most_frequent_miss_comes_first() -> None:
    other = trace(lane("eagle", prefill(), chain_step(5, 2, kept=0, bonus=9)))
    report = report_on([made(), spoken(other), made()], max_misses=1)
    assert (report.num_traces, report.num_misses) == (3, 5)
    assert [(miss.drafted, miss.came, miss.count) for miss in report.misses] == [("!", "\n", 3)]
    assert report.misses[0].contexts == ("The sunny 42", "The"), "each context once"
    assert len(report.environments) == 1


def test_a_cut_step_counts_no_place_that_was_never_judged() -> None:
    cut = trace(lane("eagle", prefill(), chain_step(5, 6, 7, kept=1, bonus=None)))
    assert [c.num_reached for c in report_on([cut]).by_depth] == [1]


def test_two_heads_are_never_mixed() -> None:
    other = replace(made(), environment=replace(made().environment, head="other"))
    with pytest.raises(TraceError, match="traces of 2 heads: other on toy, toy-head on toy"):
        report_on([made(), other])
    with pytest.raises(TraceError, match="no trace; expected traces of one head"):
        report_on([])
    with pytest.raises(TraceError, match="without the lane eagle"):
        report_on([replace(made(), lanes=made().lanes[:1])])


def test_a_lane_without_steps_has_a_report_of_nothing() -> None:
    report = report_on([trace(lane("eagle", prefill()))])
    assert (report.tau, report.by_depth, report.misses) == (0.0, (), ())
    assert "0 traces" not in report_table(report)


def test_every_form_carries_environment_and_citation() -> None:
    report = report_on([made()])
    for text in (report_table(report), report_json(report), report_csv(report)):
        assert CITATION in text
        assert "toy-head" in text
        assert "float32" in text
        assert text.endswith("\n")
    read = json.loads(report_json(report))
    assert read["misses"][0]["came"] == " 42"
    assert read["environments"][0]["versions"] == {"torch": "0"}
    assert "at depth 3" in report_table(report)


def test_the_csv_reads_back_and_holds_no_formula() -> None:
    hostile = replace(made(), pieces={**WORDS, 1: "=1+1", 9: '"\r\n@x'})
    lines = report_csv(report_on([hostile])).split("\r\n")
    table = "\r\n".join(line for line in lines if not line.startswith("#"))
    header, *rows = csv.reader(io.StringIO(table, newline=""))
    assert {len(row) for row in rows} == {len(header)}
    names = [row[1] for row in rows if row[0] == "miss"]
    assert names == ['"=1+1"', '"!"']
    assert json.loads(rows[-1][2]) == '"\r\n@x'


def test_no_name_in_a_trace_leaves_the_notes_of_the_csv() -> None:
    evil = "x\n=1+1\r\nmiss,=2+2\u2028"
    hostile = replace(made(), environment=replace(made().environment, target=evil, head=evil))
    lines = report_csv(report_on([hostile])).splitlines()
    assert lines[1].startswith("# target x =1+1 miss,=2+2 , head x")
    assert not any(line.startswith(("=", "miss,=")) for line in lines)


def test_the_command_reads_plain_and_packed_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").write_text(dump_trace(made()), "utf-8")
    (tmp_path / "two.json.gz").write_bytes(gzip.compress(dump_trace(made()).encode()))
    files = [str(tmp_path / name) for name in ("one.json", "two.json.gz")]
    assert cli.main(["report", *files]) == 0
    assert capsys.readouterr().out.startswith("2 traces, 8 tokens in 4 target passes, τ 2.00")
    assert cli.main(["report", *files, "--form", "json", "--misses", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["misses"]) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.json", None),
        ("broken.json", b"{"),
        ("binary.json", b"\xff\xfe"),
        ("cut.json.gz", gzip.compress(b"{}" * 1000)[:20]),
        ("no.json.gz", b"{}"),
    ],
)
def test_a_file_that_is_no_trace_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert cli.main(["report", str(tmp_path / name)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: trace {tmp_path / name} cannot be read")
    assert err.count("\n") == 1
