"""`ma_boot job manifest`: the job for a cluster with Volcano, from the command line of its rehearsal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ma_boot.cli.job.running import note
from ma_boot.cli.job.submit import SET, described_job, image_with_registry, run_of
from ma_boot.cli.options.click_types import FILE, files
from ma_boot.cli.options.sources import read_job_options
from ma_boot.desk.job.job_file import JobFile
from ma_boot.desk.job.load import in_order
from ma_boot.desk.job.manifest import (
    CLUSTERS,
    SCHEDULE_POLICIES,
    PodJob,
    as_yaml,
    documents,
    manifest_problems,
    token_secret,
)
from ma_boot.desk.job.readers import JobProblem
from ma_boot.desk.job.rules import exposed_secrets
from ma_boot.desk.job_service.in_obs import JobCode, job_code, upload_code
from ma_boot.errors import CannotCreate, ConfigError, listed
from ma_boot.node.boot.options import RunOptions
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.platform.modelarts.job import JOB_TOKEN
from ma_boot.redact import MASK, is_secret, masked, without_secrets
from ma_boot.report.console import print_lines

# Seconds of the grace period beyond the time that a stopped node needs by its own options.
KILL_SECONDS = 30


@click.command("manifest", options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[FILE] [-- [OPTIONS] COMMAND [ARGS]...]", shell_complete=files)
@click.option(
    "--platform", type=click.Choice(list(CLUSTERS)), required=True, help="Who writes the rank table."
)
@click.option("--namespace", metavar="NAME", help="Namespace of the objects.")
@click.option("--secret-name", metavar="NAME", help="Secret of `secrets`; default: NAME-secrets.")
@click.option("--pull-secret", metavar="NAME", help="Secret for pulling the image.")
@click.option(
    "--schedule-policy",
    metavar="NAME",
    help=f"MindCluster: the kind of server: {', '.join(SCHEDULE_POLICIES)}.",
)
@click.option("--output", **FILE, help="Write the manifest to a file, if there is one.")
@click.option("--upload", is_flag=True, help="Upload the code first, as `submit` does.")
@SET
@click.pass_context
def manifest(
    ctx: click.Context,
    /,
    words: Sequence[str],
    platform: str,
    namespace: str | None,
    secret_name: str | None,
    pull_secret: str | None,
    schedule_policy: str | None,
    output: str | None,
    upload: bool,
    changes: Sequence[str],
) -> int:
    """Prints the job of FILE for `kubectl create`, on Volcano (Lite Cluster, CCE) or MindCluster.

    \b
    Example:
      ma_boot job manifest job.yaml --platform volcano
    """
    environ: Mapping[str, str] = ctx.obj
    job, problems = described_job(ctx, words, changes)
    problems += [*manifest_problems(job), *_policy_problems(platform, schedule_policy)]
    image = image_with_registry(job.image, environ.get("HUAWEICLOUD_SDK_REGION", ""))
    if job.image and not image:
        text = f"found {job.image}, expected its registry, too: swr.REGION.myhuaweicloud.com/..., or "
        text += "HUAWEICLOUD_SDK_REGION"
        problems.append(job.problem("image", text))
    code: JobCode | None = job_code(job, os.getcwd(), problems) if job.code_url else None
    if upload and code is None:
        problems.append(job.problem("code-url", "missing, expected where the code goes"))
    if problems:
        raise ConfigError(listed("there is no manifest of this job:", in_order(problems)))
    exposed = list(map(str, exposed_secrets(job)))
    pods = PodJob(
        job=_with_secrets_apart(job),
        image=image,
        options=code.options if code else job.boot_options,
        command=code.command if code else job.command,
        code=(code.url, code.directory.name) if code else None,
        grace=_grace(ctx, job.boot_options, job.environment),
        secret=secret_name or f"{job.name}-secrets",
        obs_endpoint=environ.get("OBS_ENDPOINT", ""),
        namespace=namespace or "",
        pull_secret=pull_secret or "",
        schedule_policy=schedule_policy or "",
    )
    text = _text_of(documents(pods, CLUSTERS[platform]))
    if code and upload:
        note(f"code: {upload_code(code, environ)} of {len(code.files)} files uploaded to {code.url}")
    for line in (*exposed, *_to_do(pods, str(code.url) if code and not upload else "")):
        note(line)
    _write(text, output)
    return 0


def _write(text: str, output: str | None) -> None:
    """Prints the manifest or writes it to a file; a shell's `>` would leave an empty file on errors."""
    if output is None:
        print_lines(text)
        return
    try:
        Path(output).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot write {output}: {error.strerror}") from error


def _policy_problems(platform: str, policy: str | None) -> list[JobProblem]:
    """Reports a missing or needless policy: only MindCluster's scheduler must know the kind of server."""
    if platform != "mindcluster":
        text = "is of --platform mindcluster only" if policy else ""
    elif policy in SCHEDULE_POLICIES:
        text = ""
    else:
        servers = "; ".join(f"{name}: {server}" for name, server in SCHEDULE_POLICIES.items())
        text = f"found {policy or 'nothing'}, expected that of your servers: {servers}"
    return [JobProblem(None, "--schedule-policy", text)] if text else []


def _with_secrets_apart(job: JobFile) -> JobFile:
    """Moves the names of secret variables to `secrets`: their values come from the Secret."""
    names = [name for name, value in job.environment.items() if is_secret(name, value)]
    plain = {name: value for name, value in job.environment.items() if name not in names}
    return replace(job, environment=plain, secrets=(*job.secrets, *names))


def _text_of(documents: Sequence[dict[str, Any]]) -> str:
    """Formats the manifest.

    Raises `ConfigError` if it would show a secret: a masked manifest is another job.
    """
    text, shown = as_yaml(documents).rstrip(), without_secrets(as_yaml(masked(documents)).rstrip())
    if text != shown:
        lines = [line.strip() for line in shown.splitlines() if MASK in line]
        raise ConfigError(
            listed(
                "there is no manifest of this job: it would show secrets; name variables in `secrets`, and "
                "let the training read these",
                lines,
            )
        )
    return text


def _grace(ctx: click.Context, options: Sequence[str], environment: Mapping[str, str]) -> int:
    """Returns the grace period in seconds, from `--stop-timeout` and `--upload-timeout` of the job."""
    given = read_job_options(run_of(ctx), options).values
    total = float(KILL_SECONDS)
    defaults = {
        "stop_timeout": RunOptions().stop_timeout,
        "upload_timeout": TransferOptions().upload_timeout,
    }
    for name, default in defaults.items():
        text = given.get(name) or environment.get(f"MABOOT_{name.upper()}") or default
        try:
            total += float(str(text))
        except ValueError as error:
            raise ConfigError(
                f"environment: MABOOT_{name.upper()}: found {text!r}, expected seconds"
            ) from error
    return round(total)


def _to_do(pods: PodJob, upload_to: str) -> list[str]:
    """Lists the steps before the manifest is applied: secrets, code in OBS."""
    steps: list[str] = []
    job = pods.job
    if upload_to:
        steps.append(f"the code must be at {upload_to}: --upload uploads it")
    where = f" --namespace {pods.namespace}" if pods.namespace else ""
    token = token_secret(job)
    if token:
        steps.append(
            f"before each apply: kubectl create secret generic {token}{where} "
            f'--from-literal={JOB_TOKEN}="$(openssl rand -hex 16)" --dry-run=client --output yaml | '
            "kubectl apply --filename -"
        )
    if job.secrets:
        values = " ".join(f'--from-literal={name}="${name}"' for name in job.secrets)
        steps.append(f"once, before: kubectl create secret generic {pods.secret}{where} {values}")
    if not (pods.code or job.channels or job.has_mapping):
        return steps
    keys = (*job.secrets, *job.environment)
    if "OBS_ACCESS_KEY_ID" not in keys:
        steps.append("secrets: no keys for OBS; expected OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY")
    if "OBS_ENDPOINT" not in keys and not pods.obs_endpoint:
        steps.append("OBS_ENDPOINT is not set here, nor in `environment`: the pods need it")
    return steps
