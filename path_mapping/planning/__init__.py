"""Decides what moves, before the first byte."""

from path_mapping.planning.begun_uploads import BegunUpload, BegunUploads, noted_uploads
from path_mapping.planning.compare import REFUSE, LocalEntry, Step, unquoted
from path_mapping.planning.ends import Copy
from path_mapping.planning.local_tree import files_below, look
from path_mapping.planning.prepare import UploadChoice, prepare_downloads, prepare_uploads
from path_mapping.planning.prepared_transfer import PreparedTransfer
from path_mapping.planning.route_scan import RouteScan, scan_download, scan_upload, space_problems
from path_mapping.planning.space import SpaceNeed, free_space, shortages

__all__ = [
    "REFUSE",
    "BegunUpload",
    "BegunUploads",
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
    "noted_uploads",
    "prepare_downloads",
    "prepare_uploads",
    "scan_download",
    "scan_upload",
    "shortages",
    "space_problems",
    "unquoted",
]
