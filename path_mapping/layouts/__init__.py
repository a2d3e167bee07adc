"""How frameworks lay out the files of a checkpoint: the step of each file, and when a step is complete."""

from path_mapping.layouts.completeness import Completeness as Completeness, completeness as completeness
from path_mapping.layouts.known import (
    AUTO as AUTO,
    LAYOUTS as LAYOUTS,
    layout_of as layout_of,
    recognise as recognise,
)
from path_mapping.layouts.layout import (
    EPOCH as EPOCH,
    HIGHEST as HIGHEST,
    Layout as Layout,
    Marker as Marker,
    Need as Need,
    TrainingStep as TrainingStep,
)
from path_mapping.layouts.pattern import pattern_layout as pattern_layout
from path_mapping.layouts.said import said_steps as said_steps
from path_mapping.layouts.structure import damage as damage
