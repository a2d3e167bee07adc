"""Collectives in which ranks hang: PyTorch's flight recorder and NCCL's RAS, read and compared."""
