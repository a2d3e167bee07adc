"""One training step of a small transformer by torch.compile, for benchmarks/compile_cache.py."""

import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
net = torch.compile(torch.nn.Sequential(encoder, torch.nn.Linear(64, 10)))
began = time.monotonic()
net(torch.randn(8, 16, 64)).mean(1).square().mean().backward()
print(f"first step {time.monotonic() - began:.3f}", flush=True)
