"""The trainer: from conversations to a head.

    corpus ─▶ features ─▶ batches ─▶ unroll ─▶ objectives ─▶ loop ─▶ checkpoint ─▶ export
                                        └─▶ evaluate (n-alpha) ─┘

Uses targets and heads. Nothing in the engine knows it.
"""
