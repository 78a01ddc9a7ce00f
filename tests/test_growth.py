"""How time and memory grow, measured on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benches import tiny_bench

from eagle_core.bench import growth
from eagle_core.bench.growth import Point, growth_figure, measure_growth
from eagle_core.cost import Curve
from eagle_core.progress import no_progress

POINTS = [
    Point(128, Curve((1, 8), (40.0, 44.0)), 42.0, 25.0, 8, 900 << 20),
    Point(1024, Curve((1, 8), (50.0, 58.0)), 52.0, 31.0, 7, 990 << 20),
]


def test_lengths_rise_up_to_what_can_be_read() -> None:
    """The tiny target reads 96 tokens; two of them are left for a root and its children."""
    points = list(measure_growth(tiny_bench(), (40, 16, 8192, 4096), no_progress))
    assert [point.num_tokens for point in points] == [16, 40, 94]
    for point in points:
        assert point.verify.rows[0] == 1
        assert point.eagle_ms_per_token <= 1.001 * point.plain_ms_per_token, (
            "plain steps are a tree too"
        )
    peaks = [point.peak_bytes for point in points]
    assert peaks == sorted(peaks)


def test_every_figure_of_a_point_is_drawn() -> None:
    drawn = {
        trace.name: (list(trace.x), list(trace.y))
        for trace in growth_figure(POINTS, where="x").data
    }
    assert drawn == {
        "plain": ([128, 1024], [42.0, 52.0]),
        "EAGLE, best fixed tree": ([128, 1024], [25.0, 31.0]),
        "after 128 tokens": ([1, 8], [40.0, 44.0]),
        "after 1,024 tokens": ([1, 8], [50.0, 58.0]),
        "memory": ([128, 1024], [900.0, 990.0]),
    }


def test_the_command_prints_a_table_and_writes_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "load_workbench", lambda options: tiny_bench())
    monkeypatch.setattr(growth, "measure_growth", lambda *_: POINTS)
    data, page = tmp_path / "new" / "g.json", tmp_path / "g.html"
    assert growth.main(["--json", str(data), "--html", str(page)]) == 0
    assert "   1,024       52.0       31.0        7        990" in capsys.readouterr().out
    assert json.loads(data.read_text())["points"][1]["verify"] == {
        "rows": [1, 8],
        "ms": [50.0, 58.0],
    }
    assert "EAGLE, best fixed tree" in page.read_text("utf-8")


@pytest.mark.parametrize("flags", [["--lengths", "5,x"], ["--lengths", "0"], ["--lengths", ""]])
def test_wrong_lengths_end_in_one_sentence_before_anything_is_loaded(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "load_workbench", lambda options: pytest.fail("loaded"))
    assert growth.main(flags) == 1
    assert capsys.readouterr().err.count("\n") == 1
