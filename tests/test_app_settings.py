"""Flags and environment become one frozen Settings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from app.settings import Settings, read_settings
from eagle_core.errors import OptionError


def test_defaults_serve_this_machine_only() -> None:
    assert read_settings([], {}) == Settings(host="127.0.0.1", port=None)


def test_flags_win_over_the_environment() -> None:
    environment = {"EAGLE_TARGET": "some/model", "EAGLE_DEVICE": "cpu", "EAGLE_PORT": "9000"}
    settings = read_settings(["--target", "other/model", "--dtype", "bfloat16"], environment)
    assert settings.target == "other/model"
    assert settings.device == "cpu"
    assert settings.dtype == "bfloat16"
    assert settings.port == 9000


def test_on_a_space_all_addresses_are_served() -> None:
    settings = read_settings([], {"SPACE_ID": "me/eagle", "GRADIO_SERVER_PORT": "7860"})
    assert (settings.host, settings.port) == ("0.0.0.0", 7860)


def test_the_cache_is_a_folder() -> None:
    assert read_settings(["--cache", "~/weights"], {}).cache == Path.home() / "weights"


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "٣"])
def test_a_wrong_port_is_refused(port: str) -> None:
    with pytest.raises(OptionError, match="port"):
        read_settings([f"--port={port}"], {})


def test_an_unknown_dtype_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--dtype", "int3"], {})
    assert "bfloat16" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_quantised_weights_are_asked_for_as_a_dtype(dtype: str) -> None:
    assert read_settings(["--dtype", dtype], {}).dtype == dtype
    assert read_settings([], {"EAGLE_DTYPE": dtype}).dtype == dtype


def test_a_wrong_value_in_the_environment_is_refused_too() -> None:
    with pytest.raises((OptionError, SystemExit)):
        read_settings([], {"EAGLE_DTYPE": "int3"})


def test_settings_cannot_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]
