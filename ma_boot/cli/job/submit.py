"""`ma_boot job submit`: submits a job as it was rehearsed, or shows the request."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import click

from ma_boot.cli.job.access import note, opened, patient
from ma_boot.cli.job.fields import SET, described_job
from ma_boot.cli.job.local_image import image_findings
from ma_boot.cli.job.watch import INTERVAL, watched
from ma_boot.cli.options import files
from ma_boot.errors import ConfigError, listed
from ma_boot.job import (
    JobFile,
    JobProblem,
    boot_command,
    exposed_secrets,
    form_problems,
    image_region,
    in_order,
    keys_missing,
    missing_fields,
    request_body,
    shown_body,
)
from ma_boot.job_service import (
    Following,
    JobApi,
    JobCode,
    checked_by_services,
    created,
    job_code,
    upload_code,
)
from ma_boot.reporting import print_lines


class Planned(NamedTuple):
    """What a submission will do: the request's body, the code to upload, and what is worth a note."""

    job: JobFile
    body: Dict[str, Any]
    code: JobCode
    notes: Tuple[str, ...]
    secrets: Mapping[str, str]


@click.command("submit", options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[FILE] [-- [OPTIONS] COMMAND [ARGS]...]", shell_complete=files)
@SET
@click.option("--plan", is_flag=True, help="Print request and uploads; no network.")
@click.option("--skip-checks", is_flag=True, help="Do not ask the engine, OBS and ModelArts first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", "follow", is_flag=True, help="Follow the job to its end, as `job watch`.")
@INTERVAL
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    words: Sequence[str],
    plan: bool,
    skip_checks: bool,
    as_json: bool,
    follow: bool,
    interval: float,
    changes: Sequence[str],
) -> int:
    """Submits the job of FILE; --set, and what follows --, override it.

    \b
    Example:
      ma_boot job submit job.yaml --plan
      ma_boot job submit job.yaml --watch
      ma_boot job submit job.yaml --set nodes=4 -- --tee first train.py --epochs 3
    """
    planned = planned_submission(ctx, words, changes)
    if plan:
        print_lines(_as_json(planned) if as_json else _as_text(planned))
        return 0
    job = _submitted(planned, ctx.obj, opened(ctx.obj), skip_checks)
    print_lines(json.dumps({"id": job, "name": planned.body["metadata"]["name"]}) if as_json else job)
    if follow:
        return watched(ctx.obj, patient(ctx.obj, interval), Following(job, interval=interval))
    for text in (f"to follow it: ma_boot job watch {job}", f"to stop it:   ma_boot job stop {job}"):
        note(text)
    return 0


def _submitted(planned: Planned, environ: Mapping[str, str], api: JobApi, skip_checks: bool) -> str:
    """Uploads the code and creates the job; returns its id."""
    notes = [*planned.notes, *([] if skip_checks else _checked(planned.job, environ, api))]
    for text in notes:
        note(text)
    moved = upload_code(planned.code, environ)
    note(f"code: {moved} of {len(planned.code.files)} files uploaded to {planned.code.url}")
    try:
        return str(created(api, planned.body, note, time.sleep)["metadata"]["id"])
    except KeyboardInterrupt:
        name = planned.job.name
        note(f"it is not known whether the job was created; to see it: ma_boot job list --name {name}")
        raise


def _checked(job: JobFile, environ: Mapping[str, str], api: JobApi) -> List[str]:
    """Asks the engine, OBS and ModelArts whether the job can run; returns what is worth a note.

    Raises:
        ConfigError: it cannot, for all of these reasons.
    """
    problems, notes = checked_by_services(job, api, environ)
    region = image_region(job.image)
    if region and api.access.region and region != api.access.region:
        text = f"it is in {region}, but the job would run in {api.access.region}"
        problems.append(job.problem("image", text))
    wrong, more = image_findings(job, api.access.region, environ)
    if problems or wrong:
        told = listed("the job would fail:", in_order([*problems, *wrong]))
        raise ConfigError(f"{told}\n--skip-checks submits it all the same")
    return [*notes, *more]


def planned_submission(ctx: click.Context, words: Sequence[str], changes: Sequence[str]) -> Planned:
    """What a submission will do. Raises `ConfigError` with every rule of the form that is broken."""
    job, problems = described_job(ctx, words, changes)
    code = job_code(job, os.getcwd(), problems)
    secrets = _secrets(job, ctx.obj, problems)
    wrong = {one.key for one in problems}
    problems += [*form_problems(job), *(one for one in missing_fields(job) if one.key not in wrong)]
    if problems:
        raise ConfigError(listed("the job cannot be submitted:", in_order(problems)))
    body = request_body(job, boot_command(code.options, code.command), code.url, secrets)
    return Planned(job, body, code, tuple(map(str, [*exposed_secrets(job), *keys_missing(job)])), secrets)


def _secrets(job: JobFile, environ: Mapping[str, str], problems: List[JobProblem]) -> Dict[str, str]:
    missing = [name for name in job.secrets if not environ.get(name)]
    problems += [job.problem("secrets", f"{name} is not set in this shell") for name in missing]
    return {name: environ[name] for name in job.secrets if name not in missing}


def _as_json(planned: Planned) -> str:
    code = planned.code
    found = {
        "request": shown_body(planned.body, planned.secrets),
        "code": {
            "directory": str(code.directory),
            "url": str(code.url),
            "files": [file.as_posix() for file in code.files],
            "bytes": code.bytes,
        },
        "notes": list(planned.notes),
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def _as_text(planned: Planned) -> str:
    code = planned.code
    return "\n".join(
        [
            f"code: {shlex.quote(str(code.directory))} -> {code.url}: {len(code.files)} files, "
            f"{code.bytes / 1e6:.1f} MB",
            *(f"note: {note}" for note in planned.notes),
            "request: POST /v2/{project_id}/training-jobs",
            json.dumps(shown_body(planned.body, planned.secrets), indent=2, ensure_ascii=False),
        ]
    )
