"""Saved traces, plain or packed, read from files with the same distrust as their text."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from eagle_core.errors import TraceError
from eagle_core.trace import Trace
from eagle_core.trace_json import MAX_BYTES, load_trace


def read_trace_file(path: Path) -> Trace:
    """A `.json` or `.json.gz` file; raises `TraceError` with one sentence that names it."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # a small file may unpack to a huge one
        return load_trace(content.decode("utf-8"))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TraceError(f"trace {path} cannot be read ({error})", hint="a saved trace") from error
    except TraceError as error:
        raise TraceError(f"trace {path} cannot be read: {error}") from error
