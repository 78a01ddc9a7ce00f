"""`python -m eagle_core`: the command line."""

import sys

from eagle_core.cli import main

sys.exit(main())
