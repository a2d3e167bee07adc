"""Decides what moves, before the first byte."""

from path_mapping.planning.local_tree import (
    SpaceNeed as SpaceNeed,
    files_below as files_below,
    free_space as free_space,
    local_entry as local_entry,
    shortages as shortages,
)
from path_mapping.planning.plan import (
    REFUSE as REFUSE,
    Copy as Copy,
    LocalEntry as LocalEntry,
    Step as Step,
    unquoted as unquoted,
)
from path_mapping.planning.prepare import (
    EmptyRoute as EmptyRoute,
    PreparedTransfer as PreparedTransfer,
    UploadChoice as UploadChoice,
    prepare_downloads as prepare_downloads,
    prepare_uploads as prepare_uploads,
)
from path_mapping.planning.record import (
    BegunUploads as BegunUploads,
    is_record as is_record,
    noted_uploads as noted_uploads,
)
from path_mapping.planning.route_scan import (
    RouteScan as RouteScan,
    scan_download as scan_download,
    scan_upload as scan_upload,
    space_problems as space_problems,
)
from path_mapping.planning.shared_target import (
    CONFLICTS as CONFLICTS,
    SharedTarget as SharedTarget,
)
