"""The job on ModelArts: its code in OBS, the API, and following it to its end."""

from ma_boot.job_service.api import JobApi as JobApi, PatientApi as PatientApi, api_access as api_access
from ma_boot.job_service.checks import checked_by_services as checked_by_services
from ma_boot.job_service.follow import Following as Following, JobFollower as JobFollower, Recent as Recent
from ma_boot.job_service.in_obs import (
    JobCode as JobCode,
    fetched_logs as fetched_logs,
    job_code as job_code,
    log_place as log_place,
    upload_code as upload_code,
)
from ma_boot.job_service.jobs import (
    ENDED as ENDED,
    MAY_BE_STOPPED as MAY_BE_STOPPED,
    STATES as STATES,
    cause_of as cause_of,
    created as created,
    created_by as created_by,
    exit_code_of as exit_code_of,
    job_id as job_id,
    may_appear as may_appear,
    row_of as row_of,
    state_of as state_of,
)
