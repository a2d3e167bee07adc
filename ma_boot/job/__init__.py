"""The job as a value: read from a job file or from options, checked, and turned into a request. Pure."""

from ma_boot.job.job_file import JobChannel, JobFile, JobProblem, overridden
from ma_boot.job.keys import KEYS, read_text
from ma_boot.job.load import in_order, load_job, read_job_file
from ma_boot.job.manifest import CLUSTERS, PodJob, as_yaml, documents, manifest_problems
from ma_boot.job.read import parse_job
from ma_boot.job.request import boot_command, code_place, request_body, shown_body
from ma_boot.job.rules import (
    exposed_secrets,
    flavor_problems,
    form_problems,
    image_region,
    image_url,
    keys_missing,
    missing_fields,
    places_of,
    quota_problems,
)
from ma_boot.job.states import ENDED, MAY_BE_STOPPED, STATES, cause_of, exit_code_of, stages_of, state_of
from ma_boot.job.template import Answers, first_job_file, first_mapping

__all__ = [
    "CLUSTERS",
    "ENDED",
    "KEYS",
    "MAY_BE_STOPPED",
    "STATES",
    "Answers",
    "JobChannel",
    "JobFile",
    "JobProblem",
    "PodJob",
    "as_yaml",
    "boot_command",
    "cause_of",
    "code_place",
    "documents",
    "exit_code_of",
    "exposed_secrets",
    "first_job_file",
    "first_mapping",
    "flavor_problems",
    "form_problems",
    "image_region",
    "image_url",
    "in_order",
    "keys_missing",
    "load_job",
    "manifest_problems",
    "missing_fields",
    "overridden",
    "parse_job",
    "places_of",
    "quota_problems",
    "read_job_file",
    "read_text",
    "request_body",
    "shown_body",
    "stages_of",
    "state_of",
]
