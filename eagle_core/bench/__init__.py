"""Measure lanes over question sets: `python -m eagle_core.bench`."""
