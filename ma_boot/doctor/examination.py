"""The examination: every check in its order; the cheap half of it before a job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

from ma_boot.doctor import ascend, container, network, platform
from ma_boot.doctor.findings import ERROR, OK, WARNING, Finding, Patient
from ma_boot.environment import existing_environments, find_environment
from ma_boot.errors import ConfigError
from ma_boot.modelarts import JobEnvironment, read_job
from ma_boot.rank_table import NotYet, RankTable, Unreadable, completed_document, parse


def examine(
    patient: Patient, python: Optional[str] = None, conda_env: Optional[str] = None, configure: bool = False
) -> List[Finding]:
    """All checks. They change nothing, but for `configure`: see `ascend.card_network`."""
    try:
        job = read_job(patient.environ, patient.hostname)
    except ConfigError as error:
        return [Finding("variables", ERROR, str(error), "set none of them in the job or in the image")]
    table, findings = _rank_table(patient, job)
    return [
        *_container(patient, job),
        *_environment(patient, job, python, conda_env),
        *platform.channels(patient.environ),
        *findings,
        *platform.table(job, table),
        *network.names(patient, job),
        *network.ports(patient, job),
        *network.obs(patient, job),
        *ascend.devices(patient, job),
        *ascend.card_network(patient, job, table, configure),
    ]


def cheap_findings(patient: Patient, job: JobEnvironment) -> List[Finding]:
    """What takes no program and no network: for the start of a job."""
    return [*_container(patient, job), *network.ports(patient, job)]


def _container(patient: Patient, job: JobEnvironment) -> Iterator[Finding]:
    yield from platform.variables(patient.environ, job)
    for check in (container.user, container.directories, container.space, container.limits):
        yield from check(patient, job)


def _environment(
    patient: Patient, job: JobEnvironment, python: Optional[str], conda_env: Optional[str]
) -> Iterator[Finding]:
    try:
        found = find_environment(python, conda_env, patient.environ, job.home)
    except ConfigError as error:
        yield Finding("python", ERROR, str(error), "name one that exists: --conda-env or --python")
        return
    yield Finding(
        "python", OK, f"{found.python} by {found.origin}; {existing_environments(patient.environ, job.home)}"
    )


def _rank_table(patient: Patient, job: JobEnvironment) -> Tuple[Optional[RankTable], List[Finding]]:
    """The table as it is now, and why there is none."""
    if job.rank_table is None:
        if os.path.exists(os.path.join(patient.devices, "davinci_manager")):
            remedy = "set RANK_TABLE_FILE=/user/config in the job's environment variables"
            return None, [
                Finding("rank table", WARNING, "RANK_TABLE_FILE is not set: none will come", remedy)
            ]
        return None, []
    later = "ma_boot run waits for it"
    try:
        document = completed_document(Path(job.rank_table).read_text(encoding="utf-8"))
        if isinstance(document, NotYet):
            return None, [Finding("rank table", WARNING, f"{job.rank_table}: {document.reason}", later)]
        return parse(document), []
    except (OSError, UnicodeDecodeError) as error:
        return None, [Finding("rank table", WARNING, f"{job.rank_table}: {error}", later)]
    except Unreadable as error:
        problems = "\n".join(map(str, error.findings))
        return None, [Finding("rank table", ERROR, problems, "start the job again: the platform writes it")]
