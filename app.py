"""Open the page: flags, settings, launch."""

from __future__ import annotations

import os
import sys

from app.layout import build_demo, launch_kwargs
from app.settings import read_settings
from eagle_core.errors import EagleError


def main() -> None:
    try:
        settings = read_settings(sys.argv[1:], os.environ)
    except EagleError as error:
        sys.exit(f"app.py: {error}")
    demo = build_demo(settings)
    try:
        demo.launch(**launch_kwargs(settings))
    except OSError:
        sys.exit(f"app.py: port {settings.port or 7860} is in use; try --port with another number")


if __name__ == "__main__":
    main()
