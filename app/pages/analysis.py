"""See the run: its figures, made when their panel is opened and anew for every trace on show."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.pages.asking import (
    heading,
    keep_answered,
    note,
    read_asked,
    say,
    trace_box,
    words_box,
)
from app.views.charts import CHARTS, Chart
from eagle_core.errors import EagleError

MARK = "see-the-run"


def add_run_panel(viewer: gr.HTML) -> None:
    """A panel below the viewer, closed at first: only who opens it pays for its figures."""
    asked = trace_box()
    with gr.Accordion("See the run", open=False, elem_classes="ev-charts") as panel:
        note(MARK)
        said = words_box()
        plots = [plot for row in _rows() for plot in _add_row(row)]
    keep_answered(draw_run, [asked], [said, *plots], panel=panel, viewer=viewer, mark=MARK)


def draw_run(text: str) -> tuple[Any, ...]:
    """Words where something is wrong, then a figure per chart; all untouched for no trace."""
    if not text:
        return tuple(gr.skip() for _ in range(1 + len(CHARTS)))
    try:
        trace = read_asked(text)
    except EagleError as error:
        return (say(error), *(None for _ in CHARTS))
    return (gr.update(visible=False), *(chart.draw(trace) for chart in CHARTS))


def _rows() -> list[list[Chart]]:
    """Wide charts alone, the others in pairs."""
    rows: list[list[Chart]] = []
    for chart in CHARTS:
        if rows and len(rows[-1]) == 1 and not (chart.is_wide or rows[-1][0].is_wide):
            rows[-1].append(chart)
        else:
            rows.append([chart])
    return rows


def _add_row(charts: list[Chart]) -> list[gr.Plot]:
    plots = []
    with gr.Row(equal_height=True):
        for chart in charts:
            with gr.Column(min_width=300, elem_classes="ev-figure"):
                heading(chart.title, chart.formula)
                plots.append(gr.Plot(show_label=False, elem_id=chart.name, container=False))
    return plots
