"""Training on a Ray cluster: an actor for each node, which takes all its cards; prints where they are."""

from __future__ import annotations

import os
import sys
from typing import Any

import ray

nodes, cards = int(os.environ["NNODES"]), int(os.environ["NPROC_PER_NODE"])
ray.init(address="auto")


class Trainer:
    """One node's part of the training."""

    def node(self) -> str:
        """Returns the id of the node on which it runs."""
        return str(ray.get_runtime_context().get_node_id())


actor: Any = ray.remote(num_cpus=0, resources={"NPU": cards})(Trainer)
# All at once, so that none can use the cards of another.
trainers = [actor.remote() for _ in range(nodes)]
ids = ray.get([trainer.node.remote() for trainer in trainers])
sys.stdout.write(f"TRAINED on {len(set(ids))} of {len(ray.nodes())} {' '.join(sys.argv[1:])}\n")
