"""Trains a linear layer with the Trainer of transformers, which prints step, loss and time as users see them."""

from __future__ import annotations

import time
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

STEP_SECONDS = 0.1


class Points(torch.utils.data.Dataset[dict[str, Any]]):  # type: ignore[misc]  # without types here
    """Points whose label is the sum of their coordinates."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, at: int) -> dict[str, Any]:
        x = torch.randn(8, generator=torch.Generator().manual_seed(at))
        return {"x": x, "labels": x.sum().reshape(1)}


class Line(PreTrainedModel):  # type: ignore[misc]  # without types here
    """A linear layer, slowed down."""

    config_class = PretrainedConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.layer = torch.nn.Linear(8, 1)
        self.post_init()

    def forward(self, x: Any, labels: Any = None) -> dict[str, Any]:
        """The loss and the prediction."""
        time.sleep(STEP_SECONDS)
        predicted = self.layer(x)
        return {"loss": ((predicted - labels) ** 2).mean(), "logits": predicted}


def main() -> None:
    """Makes 60 steps, and prints the loss after each fifth."""
    arguments = TrainingArguments(
        "out", max_steps=60, per_device_train_batch_size=8, learning_rate=0.1, logging_steps=5, save_strategy="no",
        report_to=[], use_cpu=True,
    )  # fmt: skip
    Trainer(Line(PretrainedConfig()), arguments, train_dataset=Points()).train()
    torch.distributed.destroy_process_group()  # else gloo's threads now and then abort the process at its end


if __name__ == "__main__":
    main()
