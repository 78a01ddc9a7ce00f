"""Settings for all tests: one thread, since the toys are far too small for more."""

import torch

torch.set_num_threads(1)
