"""Runs a transfer, from the plan to the last byte.

`download` and `upload` prepare the plan, and turn each file to copy into a job (`jobs`). `move_files` chooses
a pool of threads or processes (`moving`, `parts`) and runs the jobs on it (`scheduler`): each job yields
units, the requests in `path_mapping.stores`, until its file is complete. `progress` counts, `periodic`
uploads in rounds, and `chosen_files` moves files without a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from path_mapping.planning import UploadChoice
from path_mapping.transfer.left_uploads import ABORT, LeftUpload, abort_uploads, left_uploads
from path_mapping.transfer.progress import Progress
from path_mapping.transfer.transfer import Transferred, download, listing, upload
from path_mapping.when_used import when_used
from path_mapping.workers import RetryPolicy, Trouble

if TYPE_CHECKING:
    from path_mapping.transfer.chosen_files import (
        FailedCopy,
        abort_unfinished,
        download_file,
        fetch_files,
        send_files,
        upload_file,
    )
    from path_mapping.transfer.outputs_check import check_outputs
    from path_mapping.transfer.periodic import be_nice, open_for_writing, settle_seconds, upload_periodically
else:  # the inputs and outputs of most jobs need none of these
    __getattr__ = when_used(
        __name__,
        {
            "chosen_files": (
                "FailedCopy",
                "abort_unfinished",
                "download_file",
                "fetch_files",
                "send_files",
                "upload_file",
            ),
            "outputs_check": ("check_outputs",),
            "periodic": ("be_nice", "open_for_writing", "settle_seconds", "upload_periodically"),
        },
    )

__all__ = [
    "ABORT",
    "FailedCopy",
    "LeftUpload",
    "Progress",
    "RetryPolicy",
    "Transferred",
    "Trouble",
    "UploadChoice",
    "abort_unfinished",
    "abort_uploads",
    "be_nice",
    "check_outputs",
    "download",
    "download_file",
    "fetch_files",
    "left_uploads",
    "listing",
    "open_for_writing",
    "send_files",
    "settle_seconds",
    "upload",
    "upload_file",
    "upload_periodically",
]
