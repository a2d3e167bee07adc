"""Checkpoint sets as a store has them: keys and manifests, the newest that is whole, and what may go."""

from path_mapping.sets.choosing import choose_newest as choose_newest, read_set as read_set
from path_mapping.sets.documents import Documents as Documents
from path_mapping.sets.leftovers import (
    Leftover as Leftover,
    leftovers as leftovers,
    remove_leftovers as remove_leftovers,
)
from path_mapping.sets.manifest import (
    CheckpointSet as CheckpointSet,
    Part as Part,
    SetFile as SetFile,
    read_part as read_part,
    whole_set as whole_set,
)
from path_mapping.sets.names import (
    OWN as OWN,
    Attempt as Attempt,
    KnownSet as KnownSet,
    Place as Place,
    SetName as SetName,
    data_name as data_name,
    nodes_named as nodes_named,
    step_text as step_text,
)
from path_mapping.sets.retention import (
    Superfluous as Superfluous,
    finish_removals as finish_removals,
    remove_set as remove_set,
    superfluous as superfluous,
)
