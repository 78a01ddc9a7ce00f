"""An EAGLE speculative-decoding engine.

Letters of dimensions, used in every comment beside a tensor:

    N  nodes of a draft tree, the root included        V  vocabulary
    L  rows in a key/value cache                       D  width of a feature
    P  tokens of a prompt                              K  tapped states
    R  rows of one pass                                B  rows of a batch, where batches exist
    H  query heads                                     J  key/value heads
    G  query heads over one of these

This front door names what can be had without torch: a recorded trace opens, and is recounted,
on a machine that has neither weights nor torch.
"""

from eagle_core.errors import EagleError
from eagle_core.options import RunOptions
from eagle_core.trace import Environment, Lane, Node, Prefill, Settings, Step, Trace, Turn
from eagle_core.trace_json import dump_trace, load_trace
from eagle_core.tree import DraftTree, TreePlan

__all__ = [
    "DraftTree",
    "EagleError",
    "Environment",
    "Lane",
    "Node",
    "Prefill",
    "RunOptions",
    "Settings",
    "Step",
    "Trace",
    "TreePlan",
    "Turn",
    "dump_trace",
    "load_trace",
]
