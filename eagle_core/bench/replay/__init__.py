"""Evaluate heads over a target's greedy answers: `python -m eagle_core.bench.replay`.

At temperature 0 the text is the target's own, whatever is drafted. So a target that remembers its
answer, and the features along it, stands in for the one that computes, under the same engine.
"""
