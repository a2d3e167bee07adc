"""What is watched beside the processes of a run: hangs, cards, metrics."""
