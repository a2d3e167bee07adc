"""The job as a value: read from a job file or from options, checked, and turned into a request. Pure."""

from ma_boot.job.job_file import JobChannel, JobFile, JobProblem, overridden
from ma_boot.job.keys import KEYS
from ma_boot.job.load import load_job
from ma_boot.job.read import parse_job
from ma_boot.job.rules import form_problems
from ma_boot.job.template import Answers, first_job_file, first_mapping

__all__ = [
    "KEYS",
    "Answers",
    "JobChannel",
    "JobFile",
    "JobProblem",
    "first_job_file",
    "first_mapping",
    "form_problems",
    "load_job",
    "overridden",
    "parse_job",
]
