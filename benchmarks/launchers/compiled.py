"""One training step of a small transformer by torch.compile, for benchmarks/compile_cache.py."""

import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(torch.nn.Module):
    """Two layers of a transformer, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0) for _ in range(2)
        )
        self.head = torch.nn.Linear(64, 10)

    def forward(self, tokens):
        """Returns ten figures for each sequence."""
        for layer in self.layers:
            tokens = layer(tokens)
        return self.head(tokens.mean(1))


net = torch.compile(Net())
began = time.monotonic()
net(torch.randn(8, 16, 64)).square().mean().backward()
print(f"first step {time.monotonic() - began:.3f}", flush=True)
