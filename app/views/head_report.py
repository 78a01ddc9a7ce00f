"""A head report for the page, as tables. A pure function of the report."""

from __future__ import annotations

from app.views.markup import GLYPHS, paragraph, table
from eagle_core.report import HeadReport
from eagle_core.report_forms import DEFINITION

SHARES = ("kept", "of", "share")


def report_markup(report: HeadReport) -> str:
    """As HTML; what a model said is escaped."""
    depths = [
        (f"depth {c.at}", str(c.num_accepted), str(c.num_reached), f"{c.rate:.0%}")
        for c in report.by_depth
    ]
    classes = [
        (c.token_class, str(c.num_accepted), str(c.num_reached), f"{c.rate:.0%}")
        for c in report.by_class
        if c.num_reached
    ]
    return (
        '<div class="ev-report">'
        f"<div>{table('Accepted by depth', ('where', *SHARES), depths)}</div>"
        f"<div>{table('Accepted by the class of what came', ('what came', *SHARES), classes)}</div>"
        f"{_misses(report)}</div>{paragraph(DEFINITION[:1].upper() + DEFINITION[1:] + '.')}"
    )


def _misses(report: HeadReport) -> str:
    caption = f"Most frequent of {report.num_misses} misses"
    rows = [
        (_seen(m.drafted), _seen(m.came), str(m.count), " / ".join(map(_seen, m.contexts)))
        for m in report.misses
    ]
    shown = table(caption, ("drafted", "came", "times", "after"), rows)
    return f'<div class="ev-misses">{shown}</div>'


def _seen(text: str) -> str:
    return text.translate(GLYPHS) or "(no text)"
