"""How to cite the method and figures taken from this program; the one place that says so.

Saved traces and every export carry it.
"""

CITATION = (
    "Y. Li, F. Wei, C. Zhang, H. Zhang: EAGLE: Speculative Sampling Requires Rethinking Feature "
    "Uncertainty, ICML 2024 (arXiv:2401.15077). Figures: the program EAGLE, step by step, "
    "in the environment named beside them."
)
