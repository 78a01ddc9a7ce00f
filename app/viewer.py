"""The browser's half as the two strings a `gr.HTML` takes: its script and its head.

Modules and style sheets of `assets/` travel inside the page. No file route is involved, so the
viewer works offline, under any root path, and where a notebook launches the page.
"""

from __future__ import annotations

import json
from pathlib import Path

from app.views.palette import css_variables

ASSETS = Path(__file__).parent.parent / "assets"
BOOT = "boot.js"

TEMPLATE = '<div class="eagle-viewer"></div>'
"""Constant on purpose: a value put into an HTML template is run by the browser."""


def viewer_script(folder: Path = ASSETS / "viewer") -> str:
    """`boot.js` with the other modules' sources in place of SOURCES."""
    modules = {
        path.name: path.read_text("utf-8")
        for path in sorted(folder.glob("*.js"))
        if path.name != BOOT
    }
    boot = (folder / BOOT).read_text("utf-8")
    return boot.replace("= SOURCES;", f"= {json.dumps(modules)};", 1)


def viewer_head(folder: Path = ASSETS / "css") -> str:
    sheets = [path.read_text("utf-8") for path in sorted(folder.glob("*.css"))]
    return "<style>\n" + css_variables() + "\n".join(sheets) + "</style>"
