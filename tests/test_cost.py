"""Curves of what passes take, and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eagle_core.cost import UNMEASURED, Curve, Profile, ProfileStore

CURVE = Curve((1, 4, 8), (10.0, 16.0, 20.0))
CONDITIONS = {"target": "toy", "threads": "2"}


@pytest.mark.parametrize(
    ("rows", "ms"), [(0, 10.0), (1, 10.0), (2, 12.0), (4, 16.0), (6, 18.0), (8, 20.0), (12, 24.0)]
)
def test_between_points_and_beyond_the_last_a_curve_is_straight(rows: int, ms: float) -> None:
    assert CURVE(rows) == pytest.approx(ms)


def test_a_curve_of_one_point_is_flat() -> None:
    assert Curve((4,), (3.0,))(1) == Curve((4,), (3.0,))(100) == 3.0


def test_a_measured_curve_never_falls_since_more_rows_show_what_fewer_take() -> None:
    assert Curve.measured({8: 20.0, 1: 10.0, 2: 50.0, 4: 12.0}) == Curve(
        (1, 2, 4, 8), (10.0, 12.0, 12.0, 20.0)
    )


@pytest.mark.parametrize(
    ("rows", "ms"),
    [((), ()), ((1, 2), (1.0,)), ((2, 1), (1.0, 2.0)), ((0, 1), (1.0, 2.0)), ((1,), (0.0,))],
    ids=str,
)
def test_what_is_no_curve_is_refused(rows: tuple[int, ...], ms: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a curve"):
        Curve(rows, ms)


PROFILE = Profile(
    contexts=(100, 300),
    verify=(CURVE, Curve((1, 8), (20.0, 41.0))),
    level=Curve((1, 2), (2.0, 3.0)),
    first_ms=2.5,
    other_ms=1.0,
    kept_by_rank=(((10, 6), (10, 2)), ((6, 3),)),
)


@pytest.mark.parametrize(
    ("context", "one_row"), [(0, 10.0), (100, 10.0), (200, 15.0), (300, 20.0), (500, 30.0)]
)
def test_prices_follow_the_length_of_the_text(context: int, one_row: float) -> None:
    prices = PROFILE.prices(context)
    assert prices.verify(1) == pytest.approx(one_row)
    assert prices.plain_ms == pytest.approx(one_row + 1.0)


def test_curves_over_other_rows_are_brought_together() -> None:
    """At 4 rows the longer text's line stands at 29."""
    assert PROFILE.prices(200).verify(4) == pytest.approx((16.0 + 29.0) / 2)


def test_noise_that_makes_a_longer_text_cheaper_is_no_price_below_the_shorter_ones() -> None:
    noisy = replace(PROFILE, verify=(CURVE, Curve((1, 8), (1.0, 30.0))))
    assert noisy.prices(5_000).verify(1) == 10.0


def test_a_step_takes_its_levels_its_rows_and_the_rest() -> None:
    prices = PROFILE.prices(100)
    assert prices.step_ms(4, (1, 2, 1)) == 2.5 + 3.0 + 2.0 + 16.0 + 1.0
    assert prices.step_ms(1, ()) == prices.plain_ms


def test_a_profile_survives_json() -> None:
    again = Profile.from_json(json.loads(json.dumps(PROFILE.to_json())))
    assert again == PROFILE
    assert again.digest == PROFILE.digest
    assert replace(PROFILE, first_ms=9.0).digest != PROFILE.digest


# The file.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "profiles.json"


def test_a_kept_profile_is_found_under_its_own_conditions_alone(file: Path) -> None:
    store, other = ProfileStore(file), {**CONDITIONS, "threads": "8"}
    assert store.find(CONDITIONS) is None
    store.keep(PROFILE, CONDITIONS)
    store.keep(UNMEASURED, other)
    assert ProfileStore(file).find(CONDITIONS) == PROFILE
    assert ProfileStore(file).find(other) == UNMEASURED
    assert ProfileStore(file).find({}) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "5", '"x"', "\x00"])
def test_a_damaged_file_is_as_good_as_none_and_mended_by_the_next_profile(
    damage: str, file: Path
) -> None:
    file.parent.mkdir()
    file.write_text(damage)
    store = ProfileStore(file)
    assert store.find(CONDITIONS) is None
    store.keep(PROFILE, CONDITIONS)
    assert store.find(CONDITIONS) == PROFILE


def changed(**parts: Any) -> dict[str, Any]:
    return {"profile": {**PROFILE.to_json(), **parts}}


@pytest.mark.parametrize(
    "entry",
    [
        *(None, 5, "tree:8", [], {}, {"profile": None}, {"profile": 5}),
        changed(contexts=[300, 100]),
        changed(contexts=[1]),
        changed(verify=[{"rows": [1], "ms": [2.0]}]),
        changed(level={"rows": [1, 2], "ms": [2.0]}),
        changed(level={"rows": [], "ms": []}),
        changed(level={"rows": [1], "ms": [float("nan")]}),
        changed(first_ms="soon"),
        changed(kept_by_rank=[]),
        changed(kept_by_rank=[[]]),
        changed(kept_by_rank=[[[1]]]),
        changed(kept_by_rank=[[[1, 2]]]),
    ],
    ids=lambda entry: str(entry)[-60:],
)
def test_a_damaged_entry_is_as_good_as_none(entry: object, file: Path) -> None:
    store = ProfileStore(file)
    store.keep(PROFILE, CONDITIONS)
    (key,) = json.loads(file.read_text())
    file.write_text(json.dumps({key: entry}))
    assert store.find(CONDITIONS) is None


def test_without_a_place_to_keep_it_nothing_breaks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = ProfileStore(tmp_path / "file" / "profiles.json")
    store.keep(PROFILE, CONDITIONS)
    assert store.find(CONDITIONS) is None


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ProfileStore(file)
    store.keep(PROFILE, CONDITIONS)
    before = file.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    store.keep(UNMEASURED, CONDITIONS)
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]
