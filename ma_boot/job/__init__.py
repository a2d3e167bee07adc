"""The job as a value: read from a job file or from options, checked, and turned into a request. Pure."""

from ma_boot.job.job_file import (
    KEYS as KEYS,
    JobFile as JobFile,
    overridden as overridden,
    parse_job as parse_job,
    with_settings as with_settings,
)
from ma_boot.job.load import in_order as in_order, load_job as load_job, read_job_file as read_job_file
from ma_boot.job.manifest import (
    CLUSTERS as CLUSTERS,
    SCHEDULE_POLICIES as SCHEDULE_POLICIES,
    PodJob as PodJob,
    as_yaml as as_yaml,
    documents as documents,
    manifest_problems as manifest_problems,
    token_secret as token_secret,
)
from ma_boot.job.readers import JobChannel as JobChannel, JobProblem as JobProblem
from ma_boot.job.request import (
    MARK as MARK,
    boot_command as boot_command,
    code_place as code_place,
    request_body as request_body,
    shown_body as shown_body,
)
from ma_boot.job.rules import (
    LONGEST_VALUE as LONGEST_VALUE,
    exposed_secrets as exposed_secrets,
    flavor_problems as flavor_problems,
    form_problems as form_problems,
    image_region as image_region,
    image_url as image_url,
    keys_missing as keys_missing,
    missing_fields as missing_fields,
    places_of as places_of,
    quota_problems as quota_problems,
)
from ma_boot.job.template import (
    Answers as Answers,
    first_job_file as first_job_file,
    first_mapping as first_mapping,
)
