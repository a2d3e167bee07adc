"""Checkpoint sets in a store: only whole ones count, and a job goes on from the newest."""

from path_mapping.checkpoints.examine import SetRow, SetsByHand
from path_mapping.checkpoints.foreseen import Foreseen, foreseen
from path_mapping.checkpoints.output import CheckpointOutput, Restored, files_of_no_set

__all__ = ["CheckpointOutput", "Foreseen", "Restored", "SetRow", "SetsByHand", "files_of_no_set", "foreseen"]
