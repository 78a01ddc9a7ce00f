"""`python -m eagle_core report`: a head report from saved traces.

Knows flags and files. Needs no torch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from eagle_core.report import MAX_MISSES, report_on
from eagle_core.report_forms import FORMS
from eagle_core.trace_files import read_trace_file


def add_report(commands: Any) -> None:
    """Add the command to an argparse parser's sub-commands."""
    parser = commands.add_parser(
        "report",
        help="say from saved traces where a head is right and where it fails",
        description="Acceptance by depth and by class of token, and the most frequent misses.",
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help=".json or .json.gz")
    parser.add_argument("--form", choices=[*FORMS], default="table", help="table by default")
    parser.add_argument("--misses", type=int, default=MAX_MISSES, metavar="N", help="so many")
    parser.set_defaults(run=run_report)


def run_report(options: argparse.Namespace) -> None:
    traces = [read_trace_file(path) for path in options.traces]
    report = report_on(traces, max_misses=max(options.misses, 0))
    sys.stdout.write(FORMS[options.form](report))
