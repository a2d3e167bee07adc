"""Checkpoint sets as a store has them: keys and manifests, the newest that is whole, and what may go."""

from path_mapping.sets.choosing import choose_newest, read_set
from path_mapping.sets.documents import Documents
from path_mapping.sets.leftovers import Leftover, leftovers, remove_leftovers
from path_mapping.sets.manifest import CheckpointSet, Part, SetFile, read_part, whole_set
from path_mapping.sets.names import (
    OWN,
    Attempt,
    KnownSet,
    Place,
    SetName,
    data_name,
    nodes_named,
    step_text,
)
from path_mapping.sets.retention import Superfluous, finish_removals, remove_set, superfluous

__all__ = [
    "OWN",
    "Attempt",
    "CheckpointSet",
    "Documents",
    "KnownSet",
    "Leftover",
    "Part",
    "Place",
    "SetFile",
    "SetName",
    "Superfluous",
    "choose_newest",
    "data_name",
    "finish_removals",
    "leftovers",
    "nodes_named",
    "read_part",
    "read_set",
    "remove_leftovers",
    "remove_set",
    "step_text",
    "superfluous",
    "whole_set",
]
