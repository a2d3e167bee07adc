"""Checkpoint sets in a store: only whole ones count, and a job goes on from the newest."""

from path_mapping.checkpoints.examine import SetRow as SetRow, SetsByHand as SetsByHand
from path_mapping.checkpoints.foreseen import Foreseen as Foreseen, foreseen as foreseen
from path_mapping.checkpoints.output import (
    CheckpointOutput as CheckpointOutput,
    Restored as Restored,
    files_of_no_set as files_of_no_set,
)
