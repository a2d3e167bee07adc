"""Decides what moves, before the first byte."""

from path_mapping.planning.compare import LocalEntry
from path_mapping.planning.local_tree import files_below, look
from path_mapping.planning.plan import REFUSE, Copy, Step
from path_mapping.planning.prepare import (
    PreparedTransfer,
    UploadChoice,
    prepare_downloads,
    prepare_uploads,
)
from path_mapping.planning.route_scan import RouteScan, scan_download, scan_upload
from path_mapping.planning.space import SpaceNeed, free_space, shortages

__all__ = [
    "REFUSE",
    "Copy",
    "LocalEntry",
    "PreparedTransfer",
    "RouteScan",
    "SpaceNeed",
    "Step",
    "UploadChoice",
    "files_below",
    "free_space",
    "look",
    "prepare_downloads",
    "prepare_uploads",
    "scan_download",
    "scan_upload",
    "shortages",
]
