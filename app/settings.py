"""Flags and environment, read once into one frozen `Settings`.

A flag wins over its environment variable, which wins over the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_core.errors import OptionError

LOCAL_HOST = "127.0.0.1"
ANY_HOST = "0.0.0.0"
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "int4")


@dataclass(frozen=True)
class Settings:
    """Where the page is served and what it runs; None leaves the choice to the engine.

    A `port` of None takes the first free one from 7860 on.
    """

    target: str | None = None
    head: str | None = None
    device: str | None = None
    dtype: str | None = None
    cache: Path | None = None
    host: str = LOCAL_HOST
    port: int | None = None

    def __post_init__(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65_535:
            raise OptionError(f"port {self.port}", expected="1 to 65535")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise OptionError(f"dtype {self.dtype!r:.40}", expected=f"one of {', '.join(DTYPES)}")


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Raises `OptionError` for a wrong value; a wrong flag ends the program with its usage."""
    given = _parser(environment).parse_args(arguments)
    return Settings(
        target=given.target,
        head=given.head,
        device=given.device,
        dtype=None if given.dtype in (None, "auto") else given.dtype,
        cache=None if given.cache is None else Path(given.cache).expanduser(),
        host=given.host,
        port=_port(given.port),
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python app.py",
        description="Open a page on which plain decoding and EAGLE answer the same prompt.",
        epilog="Every flag can also be set as EAGLE_TARGET, EAGLE_HEAD and so on.",
    )
    on_spaces = "SPACE_ID" in environment
    flags = {
        "target": (None, "hub id or folder of the target model (default: SmolLM2-135M-Instruct)"),
        "head": (None, "folder of a trained head (default: the one shipped for the target)"),
        "device": (None, "cpu, cuda, cuda:N or auto (default: cuda where there is one)"),
        "dtype": (
            None,
            f"{', '.join(DTYPES)}; int8 and int4 are the target's weights, on a CPU alone "
            "(default: float32 on cpu, bfloat16 on cuda)",
        ),
        "cache": (None, "folder for fetched weights (default: the user's cache folder)"),
        "host": (ANY_HOST if on_spaces else LOCAL_HOST, f"address to serve on ({LOCAL_HOST})"),
        "port": (environment.get("GRADIO_SERVER_PORT"), "port (default: first free from 7860)"),
    }
    for name, (default, text) in flags.items():
        parser.add_argument(
            f"--{name}",
            default=environment.get(f"EAGLE_{name.upper()}") or default,
            choices=DTYPES if name == "dtype" else None,
            metavar=name.upper(),
            help=text,
        )
    return parser


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise OptionError(f"port {text!r:.20}", expected="a whole number")
    return int(text)
