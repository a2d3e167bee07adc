"""What only watches a run: hangs, metrics, MindCluster's resets, other nodes. The core never imports it."""
