#!/usr/bin/env bash
# The whole gate, the same for people and CI: format, lint, types, tests, browser tests.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff format --check .
ruff check .
mypy
python -m pytest "$@"
