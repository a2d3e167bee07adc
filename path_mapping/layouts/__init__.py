"""How frameworks lay out the files of a checkpoint: the step of each file, and when a step is complete."""

from path_mapping.layouts.completeness import Completeness, completeness
from path_mapping.layouts.known import AUTO, LAYOUTS, layout_of, recognise
from path_mapping.layouts.layout import EPOCH, HIGHEST, Layout, Marker, Need, TrainingStep
from path_mapping.layouts.pattern import pattern_layout
from path_mapping.layouts.said import said_steps
from path_mapping.layouts.structure import damage

__all__ = [
    "AUTO",
    "EPOCH",
    "HIGHEST",
    "LAYOUTS",
    "Completeness",
    "Layout",
    "Marker",
    "Need",
    "TrainingStep",
    "completeness",
    "damage",
    "layout_of",
    "pattern_layout",
    "recognise",
    "said_steps",
]
