"""The page: a race of plain decoding and EAGLE, and every step of it to look at.

`build_demo` is fetched on first use, so that the views can be imported where gradio is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.layout import build_demo, launch_kwargs

__all__ = ["build_demo", "launch_kwargs"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from app import layout

    return getattr(layout, name)
