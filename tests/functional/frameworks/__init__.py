"""Training code: MindSpore, PyTorch, Open MPI, and what `ma_boot.training` gives it."""
