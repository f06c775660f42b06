"""Settings of every test process."""

from __future__ import annotations

import torch

from vskipper.suite import interpret_kernels_without_gpu

# before any test module imports a kernel
interpret_kernels_without_gpu()
# many small operators in two processes: threads of each would only fight over the cores
torch.set_num_threads(1)
