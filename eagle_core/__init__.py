"""An EAGLE speculative-decoding engine.

Letters of dimensions, used in every comment beside a tensor:

    N  nodes of a draft tree, the root included        V  vocabulary
    L  rows in a key/value cache                       D  width of a feature
    P  tokens of a prompt                              K  tapped states
    R  rows of one pass                                B  rows of a batch, where batches exist

This front door names what can be had without torch: a recorded trace opens, and is recounted,
on a machine that has neither weights nor torch.
"""
