"""The page as a Gradio app: pages, theme, and how it is served."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

# Read by gradio when it is imported: nothing is reported to anyone.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr

from app.pages.race import add_race_page
from app.replay import Recorded, load_recordings
from app.runner import Runner, runner_for
from app.settings import Settings, read_settings
from app.views.palette import PALETTE

TITLE = "EAGLE, step by step"
MAX_WAITING = 20


def build_demo(
    settings: Settings | None = None,
    *,
    runner: Runner | None = None,
    recordings: Sequence[Recorded] | None = None,
) -> gr.Blocks:
    """The page, its model already loading in the background.

    Without settings they come from the environment. Launch it with `launch_kwargs()`.
    """
    if runner is None:
        runner = runner_for(settings or read_settings([], os.environ))
    runner.start_loading()
    demo = gr.Blocks(title=TITLE, analytics_enabled=False)
    with demo:
        add_race_page(demo, runner, load_recordings() if recordings is None else recordings)
    demo.queue(max_size=MAX_WAITING)
    return demo


def launch_kwargs(settings: Settings | None = None) -> dict[str, Any]:
    """Local, unshared, silent: no proxy, no history, no monitoring, no files served."""
    settings = settings or Settings()
    return {
        "server_name": settings.host,
        "server_port": settings.port,
        "theme": page_theme(),
        "share": False,
        "show_error": False,
        "strict_cors": True,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "allowed_paths": [],
        "max_file_size": "2mb",
        "state_session_capacity": 100,
        "footer_links": ["settings"],
    }


def page_theme() -> gr.themes.Base:
    """Quiet greys, one blue; fonts that come with gradio (its semi-bold files lack letters)."""
    local = gr.themes.utils.fonts.LocalFont
    weights = (400, 700)
    theme = gr.themes.Base(
        primary_hue="blue",
        neutral_hue="slate",
        font=[local("IBM Plex Sans", weights), "ui-sans-serif", "system-ui", "sans-serif"],
        font_mono=[local("IBM Plex Mono", weights), "ui-monospace", "monospace"],
    )
    return theme.set(
        body_text_color_subdued=PALETTE["plain"].light,
        body_text_color_subdued_dark=PALETTE["plain"].dark,
        block_label_text_color=PALETTE["plain"].light,
        block_label_text_color_dark=PALETTE["plain"].dark,
        input_placeholder_color=PALETTE["plain"].light,
        input_placeholder_color_dark=PALETTE["plain"].dark,
        button_primary_background_fill=PALETTE["eagle"].light,
        button_primary_background_fill_dark=PALETTE["eagle"].light,
    )
