"""`python -m eagle_core convert`: a head from one published layout into another.

Knows flags and head folders. Needs torch only once it is run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from eagle_core.errors import HeadError

if TYPE_CHECKING:
    from eagle_core.drafters.exports import Layout


def add_convert(commands: Any) -> None:
    """Add the command to an argparse parser's sub-commands."""
    parser = commands.add_parser(
        "convert",
        help="write a head in the layout of EAGLE, SpecForge or speculators",
        description="Write a head in another published layout; the weights stay as they are.",
    )
    parser.add_argument("head", help="a head's folder or hub id, or the name of a shipped one")
    parser.add_argument(
        "--layout", required=True, help="eagle or speculators; eagle3, specforge or speculators"
    )
    parser.add_argument("--to", required=True, type=Path, metavar="FOLDER", help="a new folder")
    parser.set_defaults(run=run_convert)


def run_convert(options: argparse.Namespace) -> None:
    from eagle_core.drafters.heads import read_head, write_head
    from eagle_core.workbench import head_folder

    if options.to.exists():
        raise HeadError(f"{options.to} is there already", expected="a new folder", hint="another")
    head = read_head(head_folder(options.head, target=None))
    try:
        write_head(options.to, head, layout=cast("Layout", options.layout))
    except OSError as error:
        raise HeadError(f"{options.to} cannot be written ({error.strerror})") from error
    print(f"head written to {options.to}", file=sys.stderr)
