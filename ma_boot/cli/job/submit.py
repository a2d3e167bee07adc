"""`ma_boot job submit`: submits a job as it was rehearsed, or shows the request."""

from __future__ import annotations

import json
import os
import shlex
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ma_boot.cli.image import stopped_by_sigterm
from ma_boot.cli.job.running import INTERVAL, note, open_api, open_patient_api, watch_job
from ma_boot.cli.options.click_types import files
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.options.sources import read_job_options
from ma_boot.desk.image.check import check_image
from ma_boot.desk.image.container_engine import engine, image_attributes
from ma_boot.desk.job.job_file import JobFile, overridden, with_settings
from ma_boot.desk.job.load import in_order, read_job_file
from ma_boot.desk.job.readers import JobProblem
from ma_boot.desk.job.request import MARK, boot_command, request_body, shown_body
from ma_boot.desk.job.rules import (
    LONGEST_VALUE,
    exposed_secrets,
    form_problems,
    image_region,
    image_url,
    keys_missing,
    missing_fields,
)
from ma_boot.desk.job_service.api import JobApi
from ma_boot.desk.job_service.checks import checked_by_services
from ma_boot.desk.job_service.follow import Following
from ma_boot.desk.job_service.in_obs import JobCode, job_code, upload_code
from ma_boot.desk.job_service.jobs import create_job, find_created_job, may_appear
from ma_boot.errors import BootError, ConfigError, InputMissing, Stopped, StoreUnavailable, listed
from ma_boot.platform.modelarts.job import JOB_TOKEN
from ma_boot.redact import remember_secrets
from ma_boot.report.console import print_lines
from ma_boot.wording import list_first, size

if TYPE_CHECKING:
    from docker import DockerClient

_USUAL_FILE = "job.yaml"  # that `job init` writes
_MOST_NAMED = 4  # files and directories in a line

SET = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of the job file, e.g. nodes=4, environment.SIZE=8 or exclude=data/; may be repeated.",
)


def described_job(
    ctx: click.Context, words: Sequence[str], changes: Sequence[str]
) -> tuple[JobFile, list[JobProblem]]:
    """Reads the job of a command line; returns it with all mistakes but violations of the form's rules.

    `words` are `[FILE] [OPTIONS of ma_boot] COMMAND`, `changes` the values of `--set`. Raises `ConfigError`
    if the job file cannot be read.
    """
    run = run_of(ctx)
    if not words and not changes:
        raise click.UsageError(_no_file(ctx))
    is_file = bool(words) and words[0].endswith((".yaml", ".yml"))
    job, problems = read_job_file(words[0]) if is_file else (JobFile(), [])
    job = with_settings(job, changes, problems)
    problems += [
        job.problem(f"options: {wrong.option}", wrong.text)
        for wrong in read_job_options(run, job.boot_options).problems
    ]
    options, command = split_words(run, words[1:] if is_file else words)
    problems += [
        JobProblem(None, f"--{wrong.option}", wrong.text) for wrong in read_job_options(run, options).problems
    ]
    given = {name: value for name, value in (("options", options), ("command", command)) if value}
    job = overridden(job, given)
    remember_secrets({**ctx.obj, **job.environment}, job.secrets)
    return job, problems


def _no_file(ctx: click.Context) -> str:
    if not os.path.isfile(_USUAL_FILE):
        return f"Missing argument 'FILE'; ma_boot job init writes {_USUAL_FILE}."
    return f"Missing argument 'FILE'; did you mean {ctx.command_path} {_USUAL_FILE}?"


def run_of(ctx: click.Context) -> click.Command:
    """Returns the command `run`, which defines the options of a job."""
    root = ctx.find_root().command
    return root.commands["run"] if isinstance(root, click.Group) else root


def split_words(run: click.Command, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits `[OPTIONS] COMMAND`, as after `ma_boot`, into options `--name=value` and the command.

    Raises `click.UsageError` for an option that ma_boot does not have.
    """
    values, command, order = run.make_parser(click.Context(run, **run.context_settings)).parse_args(
        list(words)
    )
    options: list[str] = []
    module = False
    for param in dict.fromkeys(order):
        if not isinstance(param, DeclaredOption) or param.name is None:
            continue
        name, value = param.opts[-1], values[param.name]
        if not name.startswith("--"):
            module = True
        elif param.is_flag:
            options.append(name)
        else:
            options += [f"{name}={text}" for text in (value if param.multiple else [value])]
    rest = command or values.get("command")
    rest = rest if isinstance(rest, (list, tuple)) else ()  # click's own mark for a missing value
    return tuple(options), ("-m", *rest) if module else tuple(rest)


def image_findings(
    job: JobFile, region: str, environ: Mapping[str, str]
) -> tuple[list[JobProblem], list[str]]:
    """Checks the image; returns problems and notes, none if the engine here does not have the image."""
    try:
        with stopped_by_sigterm(), engine(environ) as client:
            name = _local_name(client, job, region)
            if name is None:
                return [], ["image: not checked: the container engine here does not have it"]
            checked = check_image(client, name, environ)
    except BootError as error:
        return [], [f"image: not checked: {str(error).splitlines()[0]}"]
    wrong = [finding for finding in checked.findings if finding.severity == "error"]
    texts = [f"{finding.check}: {finding.evidence}; {finding.remedy}" for finding in wrong]
    others = [finding for finding in checked.findings if finding not in wrong]
    notes = [f"image: {finding.check}: {finding.evidence}" for finding in others]
    return [job.problem("image", text) for text in texts], notes


def _local_name(client: DockerClient, job: JobFile, region: str) -> str | None:
    """Returns the name of the image on the engine: as in the job, with SWR's host, or without registry."""
    url = image_url(job.image)
    for name in filter(None, dict.fromkeys((job.image, image_with_registry(url, region), url))):
        try:
            image_attributes(client, name)
        except InputMissing:
            continue
        return name
    return None


def image_with_registry(image: str, region: str) -> str:
    """Returns the image name for pulling; empty if its registry is unknown."""
    if "." in image.partition("/")[0] or ":" in image.partition("/")[0]:
        return image
    return f"swr.{region}.myhuaweicloud.com/{image}" if image and region else ""


class Planned(NamedTuple):
    """The plan of a submission: the request's body, the code to upload, and notes."""

    job: JobFile
    body: dict[str, Any]
    code: JobCode
    notes: tuple[str, ...]
    secrets: Mapping[str, str]


@click.command("submit", options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[FILE] [-- [OPTIONS] COMMAND [ARGS]...]", shell_complete=files)
@SET
@click.option("--plan", is_flag=True, help="Print request and uploads; no network.")
@click.option("--skip-checks", is_flag=True, help="Skip the checks with the engine, OBS and ModelArts.")
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
    with stopped_by_sigterm():
        job = _submitted(planned, ctx.obj, skip_checks, as_json)
    if follow:
        try:
            return watch_job(ctx.obj, open_patient_api(ctx.obj, interval), Following(job, interval=interval))
        except InputMissing as error:
            text = f"{job} was created, but cannot be followed yet: {error}; ma_boot job watch {job}"
            raise StoreUnavailable(text) from error
    for text in (f"to follow it: ma_boot job watch {job}", f"to stop it:   ma_boot job stop {job}"):
        note(text)
    return 0


def _submitted(planned: Planned, environ: Mapping[str, str], skip_checks: bool, as_json: bool) -> str:
    """Uploads the code, creates the job, prints its id even if interrupted, and returns it."""
    is_sent = False
    try:
        api = open_api(environ)
        for text in [*planned.notes, *([] if skip_checks else _checked(planned.job, environ, api))]:
            note(text)
        moved = upload_code(planned.code, environ)
        note(f"code: {moved} of {len(planned.code.files)} files uploaded to {planned.code.url}")
        is_sent = True
        job = create_job(api, planned.body, note, time.sleep)
        _print_id(job, planned, as_json)
    except (KeyboardInterrupt, Stopped):
        if not is_sent:
            note("no job was created")
            raise
        note("it is not known whether the job was created: looking for it")
        job = find_created_job(api, planned.body)
        if job:
            _print_id(job, planned, as_json)
        note(f"{job} was created" if job else f"no job of this request was found; {may_appear(planned.body)}")
        raise
    return job


def _print_id(job: str, planned: Planned, as_json: bool) -> None:
    print_lines(json.dumps({"id": job, "name": planned.body["metadata"]["name"]}) if as_json else job)


def _checked(job: JobFile, environ: Mapping[str, str], api: JobApi) -> list[str]:
    """Checks the job with the engine, OBS and ModelArts; returns notes."""
    problems, notes = checked_by_services(job, api, environ)
    region = image_region(job.image)
    if region and api.access.region and region != api.access.region:
        text = f"it is in {region}, but the job would run in {api.access.region}"
        problems.append(job.problem("image", text))
    wrong, more = image_findings(job, api.access.region, environ)
    if problems or wrong:
        reasons = listed("the job would fail:", in_order([*problems, *wrong]))
        raise ConfigError(f"{reasons}\n--skip-checks submits it all the same")
    return [*notes, *more]


def planned_submission(ctx: click.Context, words: Sequence[str], changes: Sequence[str]) -> Planned:
    """Plans a submission. Raises `ConfigError` that lists all violated rules of the form."""
    job, problems = described_job(ctx, words, changes)
    code = job_code(job, os.getcwd(), problems)
    secrets = _secrets(job, ctx.obj, problems)
    wrong = {problem.key for problem in problems}
    problems += [*form_problems(job), *(field for field in missing_fields(job) if field.key not in wrong)]
    if problems:
        raise ConfigError(listed("the job cannot be submitted:", in_order(problems)))
    if job.needs_token:
        secrets[JOB_TOKEN] = os.urandom(16).hex()
        remember_secrets(secrets, [JOB_TOKEN])
    more = {**secrets, MARK: uuid.uuid4().hex}
    body = request_body(job, boot_command(code.options, code.command), code.url, more)
    return Planned(job, body, code, tuple(map(str, [*exposed_secrets(job), *keys_missing(job)])), secrets)


def _secrets(job: JobFile, environ: Mapping[str, str], problems: list[JobProblem]) -> dict[str, str]:
    missing = [name for name in job.secrets if not environ.get(name)]
    problems += [job.problem("secrets", f"{name} is not set in this shell") for name in missing]
    values = {name: environ[name] for name in job.secrets if name not in missing}
    problems += [
        job.problem("secrets", f"{name} has {len(value)} characters, expected at most {LONGEST_VALUE}")
        for name, value in values.items()
        if len(value) > LONGEST_VALUE
    ]
    return values


def _as_json(planned: Planned) -> str:
    code = planned.code
    document = {
        "request": shown_body(planned.body, planned.secrets),
        "code": {
            "directory": str(code.directory),
            "url": str(code.url),
            "files": [file.as_posix() for file in code.files],
            "bytes": code.bytes,
        },
        "notes": list(planned.notes),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _not_uploaded(code: JobCode) -> list[str]:
    names = list_first(code.ignored, _MOST_NAMED)
    return [f"not uploaded, by .gitignore: {names}"] if names else []


def _as_text(planned: Planned) -> str:
    code = planned.code
    return "\n".join(
        [
            f"code: {shlex.quote(str(code.directory))} -> {code.url}: {len(code.files)} files, "
            + size(code.bytes),
            *_not_uploaded(code),
            *(f"note: {note}" for note in planned.notes),
            "request: POST /v2/{project_id}/training-jobs",
            json.dumps(shown_body(planned.body, planned.secrets), indent=2, ensure_ascii=False),
        ]
    )
