"""Checkpoint sets in OBS: a step counts when every saver has published its part."""

from ma_boot.checkpoints.attempts import Restored as Restored
from ma_boot.checkpoints.by_hand import SetsByHand as SetsByHand, foreseen as foreseen
from ma_boot.checkpoints.formats import damage as damage
from ma_boot.checkpoints.manifest import CheckpointSet as CheckpointSet
from ma_boot.checkpoints.options import (
    OPTIONS as OPTIONS,
    CheckpointOptions as CheckpointOptions,
    options_of as options_of,
    written as written,
)
from ma_boot.checkpoints.output import (
    CheckpointOutput as CheckpointOutput,
    ordinary_files as ordinary_files,
)
from ma_boot.checkpoints.publication import JobStart as JobStart
from ma_boot.checkpoints.retention import Leftover as Leftover
from ma_boot.checkpoints.sets import SetRow as SetRow
from ma_boot.checkpoints.steps import RunEnd as RunEnd
