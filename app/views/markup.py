"""Words in tables, paragraphs and figures. What comes from outside this file is escaped, so that
what a model or a file says is shown and never run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from eagle_core.trace import Trace

GLYPHS = str.maketrans({" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"})


def piece_of(trace: Trace, token: int) -> str:
    """A token with its blanks and line ends made visible, as in the viewer."""
    return trace.pieces.get(token, "").translate(GLYPHS) or f"#{token}"


def in_figure(text: str) -> str:
    """For plotly, which takes some tags for formatting."""
    return escape(text, quote=False)


def paragraph(text: str, *, kind: str = "ev-note") -> str:
    return f'<p class="{kind}">{escape(text)}</p>'


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first cell of a row names it; a column without a name has no header. On a narrow screen
    it scrolls sideways, so that it takes the focus of keys."""
    head = "".join(_column(name) for name in header)
    body = "".join(_row(row) for row in rows)
    return (
        f'<div class="ev-facts-table" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _column(name: str) -> str:
    return f'<th scope="col">{escape(name)}</th>' if name else "<td></td>"


def _row(cells: Sequence[str]) -> str:
    name, *values = (escape(cell) for cell in cells)
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>'
