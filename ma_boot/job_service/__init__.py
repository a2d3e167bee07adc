"""The job on ModelArts: its code in OBS, the API, and following it to its end."""

from ma_boot.job_service.access import api_access
from ma_boot.job_service.api import JobApi
from ma_boot.job_service.checks import Checked, checked_by_services
from ma_boot.job_service.code import JobCode, job_code, upload_code
from ma_boot.job_service.follow import Following, JobFollower, Seen
from ma_boot.job_service.log_path import fetched_logs, log_place
from ma_boot.job_service.patience import PatientApi
from ma_boot.job_service.recent import Recent
from ma_boot.job_service.submission import created, job_id, row_of

__all__ = [
    "Checked",
    "Following",
    "JobApi",
    "JobCode",
    "JobFollower",
    "PatientApi",
    "Recent",
    "Seen",
    "api_access",
    "checked_by_services",
    "created",
    "fetched_logs",
    "job_code",
    "job_id",
    "log_place",
    "row_of",
    "upload_code",
]
