"""Runs a transfer, from the plan to the last byte.

`download` and `upload` prepare the plan, and turn each file to copy into a job (`jobs`). `move_files` chooses
a pool of threads or processes (`moving`, `parts`) and runs the jobs on it (`scheduler`): each job yields
units, the requests in `path_mapping.stores`, until its file is complete. `progress` counts, `periodic`
uploads in rounds, and `one_file` moves a single file without a plan.
"""

from path_mapping.planning import UploadChoice
from path_mapping.transfer.left_uploads import ABORT, LeftUpload, abort_uploads, left_uploads
from path_mapping.transfer.one_file import download_file, upload_file
from path_mapping.transfer.outputs_check import check_outputs
from path_mapping.transfer.periodic import upload_periodically
from path_mapping.transfer.progress import Progress
from path_mapping.transfer.transfer import Transferred, download, listing, upload
from path_mapping.workers import RetryPolicy, Trouble

__all__ = [
    "ABORT",
    "LeftUpload",
    "Progress",
    "RetryPolicy",
    "Transferred",
    "Trouble",
    "UploadChoice",
    "abort_uploads",
    "check_outputs",
    "download",
    "download_file",
    "left_uploads",
    "listing",
    "upload",
    "upload_file",
    "upload_periodically",
]
