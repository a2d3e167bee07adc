"""Runs all checks, or the quick ones, and formats their findings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ma_boot.errors import ConfigError
from ma_boot.node.doctor import ascend, container, gpu, network, platform
from ma_boot.node.doctor.container import System
from ma_boot.node.environment.conda import existing_environments
from ma_boot.node.environment.training_environment import explain_python
from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding, failed
from ma_boot.platform.modelarts.job import JobEnvironment, read_job
from ma_boot.platform.modelarts.surroundings import read_surroundings, with_machine
from ma_boot.platform.rank_table import NotYet, RankTable, Unreadable, completed_document, own_pod, parse
from ma_boot.wording import counted


def examine(
    system: System, python: str | None = None, conda_env: str | None = None, configure: bool = False
) -> list[Finding]:
    """Returns the findings of all checks; `configure` allows `check_card_network` to change a setting."""
    try:
        job = read_job(system.environ, system.hostname, system.platform, read_surroundings)
    except ConfigError as error:
        return [Finding("variables", ERROR, str(error), "do not set them in the job form or in the image")]
    table, findings = _rank_table(system, job)
    own, not_found = None, ""
    try:
        own = own_pod(table, with_machine(job.identity)) if table is not None and table.pods else None
    except ConfigError as error:
        not_found = str(error)
    chosen, of_environment = _environment(system, job, python, conda_env)
    return [
        platform.describe_platform(system.environ, job),
        *_container(system, job),
        *of_environment,
        *platform.list_channels(system.environ),
        *findings,
        *platform.check_table(job, table, own, not_found),
        *network.check_names(system, job),
        *network.check_ports(system, job),
        *network.check_obs(system, job),
        *gpu.check_gpus(system, job, chosen),
        *([] if gpu.has_gpus(system) else ascend.check_devices(system, job)),
        *ascend.check_card_network(system, own, table, configure),
    ]


def quick_findings(system: System, job: JobEnvironment) -> list[Finding]:
    """Returns the findings of the checks without programs and network, for the start of a job.

    The environment of the training is not selected yet, so its torch is not checked.
    """
    return [
        *_container(system, job),
        *network.check_ports(system, job),
        *gpu.check_gpus(system, job, None),
    ]


def format_findings(findings: Sequence[Finding]) -> str:
    """Formats a line for each finding, with its remedy below it, and a summary."""
    lines: list[str] = []
    for finding in findings:
        head, *more = finding.evidence.split("\n")
        lines.append(f"{finding.severity:8} {finding.check:12} {head}")
        lines += [f"{'':21} {line}" for line in more]
        if finding.remedy:
            lines.append(f"{'':21} -> {finding.remedy}")
    counts = {kind: sum(finding.severity == kind for finding in findings) for kind in (ERROR, WARNING, OK)}
    return "\n".join(
        [*lines, f"{counted(counts[ERROR], 'error')}, {counted(counts[WARNING], 'warning')}, {counts[OK]} ok"]
    )


def format_findings_as_json(findings: Sequence[Finding]) -> str:
    """Formats the findings as a JSON document; `healthy` is false if there are errors."""
    document = {"healthy": not failed(findings), "findings": [finding._asdict() for finding in findings]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _container(system: System, job: JobEnvironment) -> Iterator[Finding]:
    yield from platform.check_variables(system.environ, job)
    for check in (
        container.check_user,
        container.check_directories,
        container.check_space,
        container.check_limits,
    ):
        yield from check(system, job)


def _environment(
    system: System, job: JobEnvironment, python: str | None, conda_env: str | None
) -> tuple[str | None, list[Finding]]:
    """Returns the training's python, None without one, and the findings."""
    try:
        chosen, origin = explain_python(python, conda_env, system.environ, job.home)
    except ConfigError as error:
        remedy = "select one that exists with --conda-env or --python"
        return None, [Finding("python", ERROR, str(error), remedy)]
    others = existing_environments(system.environ, job.home)
    return chosen, [Finding("python", OK, f"{origin}; {others}")]


def _rank_table(system: System, job: JobEnvironment) -> tuple[RankTable | None, list[Finding]]:
    """Returns the table in its current state, and the findings if there is none."""
    if job.place.table is None:
        if os.path.exists(os.path.join(system.devices, "davinci_manager")):
            remedy = "set RANK_TABLE_FILE=/user/config in the job's environment variables"
            return None, [
                Finding("rank table", WARNING, "RANK_TABLE_FILE is not set, so there will be none", remedy)
            ]
        return None, []
    later = "ma_boot run waits for it"
    try:
        document = completed_document(Path(job.place.table).read_bytes())
        if isinstance(document, NotYet):
            return None, [Finding("rank table", WARNING, f"{job.place.table}: {document.reason}", later)]
        return parse(document), []
    except OSError as error:
        return None, [Finding("rank table", WARNING, f"{job.place.table}: {error.strerror}", later)]
    except Unreadable as error:
        problems = "\n".join(map(str, error.findings))
        return None, [
            Finding("rank table", ERROR, problems, "resubmit the job: the platform writes the file")
        ]
