"""The job on ModelArts: its code in OBS, the API, and following it to its end."""

from ma_boot.job_service.access import api_access as api_access
from ma_boot.job_service.api import JobApi as JobApi
from ma_boot.job_service.checks import Checked as Checked, checked_by_services as checked_by_services
from ma_boot.job_service.code import JobCode as JobCode, job_code as job_code, upload_code as upload_code
from ma_boot.job_service.follow import Following as Following, JobFollower as JobFollower, Seen as Seen
from ma_boot.job_service.log_path import fetched_logs as fetched_logs, log_place as log_place
from ma_boot.job_service.patience import PatientApi as PatientApi
from ma_boot.job_service.recent import Recent as Recent
from ma_boot.job_service.submission import created as created, job_id as job_id, row_of as row_of
