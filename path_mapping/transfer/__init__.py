"""Runs a transfer, from the plan to the last byte.

`download` and `upload` prepare the plan, and turn each file to copy into a job (`jobs`). `move_files` chooses
a pool of threads or processes (`parts`) and runs the jobs on it (`scheduler`): each job yields units, the
requests in `path_mapping.stores`, until its file is complete. `periodic` uploads in rounds, and
`fetch_files` and `send_files` move files without a plan.
"""

from path_mapping.planning import SharedTarget as SharedTarget, UploadChoice as UploadChoice
from path_mapping.transfer.left_uploads import (
    LeftUpload as LeftUpload,
    abort_uploads as abort_uploads,
    check_outputs as check_outputs,
    left_uploads as left_uploads,
)
from path_mapping.transfer.periodic import (
    be_nice as be_nice,
    open_for_writing as open_for_writing,
    upload_periodically as upload_periodically,
)
from path_mapping.transfer.scheduler import Progress as Progress
from path_mapping.transfer.transfer import (
    FailedCopy as FailedCopy,
    Transferred as Transferred,
    abort_unfinished as abort_unfinished,
    download as download,
    download_file as download_file,
    fetch_files as fetch_files,
    send_files as send_files,
    upload as upload,
    upload_file as upload_file,
)
from path_mapping.workers import RetriedStore as RetriedStore, RetryPolicy as RetryPolicy, Trouble as Trouble
