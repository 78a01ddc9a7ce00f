"""Evaluate heads over a target's answers: `python -m eagle_core.bench.replay`.

At temperature 0 the text is the target's own, whatever is drafted. So a target that remembers its
answer, and the features along it, stands in for the one that computes, under the same engine.

Above 0 the answers are sampled, and the same replay stands in for the rule `one_hot` (EAGLE-2's):
there a node's best tokens are drafted for certain, and the walk goes to each with just the
probability that the target's law gives it. To sample the text first and then see which of its
tokens were drafted comes to the same.
"""
