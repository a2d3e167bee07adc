"""Decides what moves, before the first byte."""

from path_mapping.planning.begun_uploads import (
    BegunUpload as BegunUpload,
    BegunUploads as BegunUploads,
    noted_uploads as noted_uploads,
)
from path_mapping.planning.compare import (
    REFUSE as REFUSE,
    LocalEntry as LocalEntry,
    Step as Step,
    unquoted as unquoted,
)
from path_mapping.planning.ends import Copy as Copy
from path_mapping.planning.local_tree import files_below as files_below, look as look
from path_mapping.planning.prepare import (
    UploadChoice as UploadChoice,
    prepare_downloads as prepare_downloads,
    prepare_uploads as prepare_uploads,
)
from path_mapping.planning.prepared_transfer import PreparedTransfer as PreparedTransfer
from path_mapping.planning.record import is_record as is_record
from path_mapping.planning.route_scan import (
    RouteScan as RouteScan,
    scan_download as scan_download,
    scan_upload as scan_upload,
    space_problems as space_problems,
)
from path_mapping.planning.space import (
    SpaceNeed as SpaceNeed,
    free_space as free_space,
    shortages as shortages,
)
