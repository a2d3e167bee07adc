"""The request that creates a job: the body of CreateTrainingJob. Pure.

Fields and their rules are those of the API's documentation; OBS paths are written `/bucket/dir/`, as in every
example of the vendor's own clients.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ma_boot.desk.job.job_file import JobFile, merged
from ma_boot.desk.job.readers import JobChannel
from ma_boot.desk.job.rules import image_url
from ma_boot.redact import MASK, masked
from path_mapping.mapping.routes import ObsUrl

# A random value of this variable identifies the job of one request. If the answer is lost, the job is found
# by it, and not confused with another job of the same name.
MARK = "MABOOT_SUBMISSION"
# Fields in which an empty value is a value.
_FREE = {"environments", "parameters"}


def boot_words(options: Sequence[str], command: Sequence[str]) -> list[str]:
    """Words of the boot command, without a shell."""
    named = command[:1] and command[0].endswith((".py", ".sh"))
    return ["ma_boot", *options, *([] if named else ["--"]), *command]


def boot_command(options: Sequence[str], command: Sequence[str]) -> str:
    """The boot command of the form.

    The shell replaces itself (`exec`), so that stop signals reach ma_boot.
    """
    return shlex.join(["exec", *boot_words(options, command)])


def request_body(job: JobFile, command: str, code: ObsUrl, more: Mapping[str, str]) -> dict[str, Any]:
    """Builds the body of the request that creates the job.

    `command` is the boot command, `code` the directory of the code in OBS, `more` are variables in addition
    to those of the job file.
    """
    algorithm = {
        "engine": {"image_url": image_url(job.image)},
        "code_dir": _path(code),
        "command": command,
        "inputs": [_channel(channel, channel.is_object) for channel in job.inputs],
        "outputs": [_channel(channel) for channel in job.outputs],
        "parameters": [{"name": name, "value": value} for name, value in job.parameters.items()],
        "environments": {**job.variables, **more},
    }
    retry = {"fault-tolerance/job-retry-num": str(job.retries)} if job.retries else {}
    hours = {"time_unit": "HOURS", "duration": job.time_limit} if job.time_limit else {}
    spec = {
        "resource": {"pool_id": job.pool, "flavor_id": job.flavor, "node_count": job.nodes},
        "log_export_path": {"obs_url": _path(job.log_url)} if job.log_url else {},
        "auto_stop": hours,
    }
    metadata = {
        "name": job.name,
        "workspace_id": job.workspace,
        "description": job.description,
        "annotations": retry,
    }
    body = {"kind": "job", "metadata": metadata, "algorithm": algorithm, "spec": spec}
    return merged(_without_empty(body), job.request)  # type: ignore[no-any-return]  # a dict, as the body is one


def shown_body(body: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Masks secrets in the body, and the values of the given variables regardless of their names."""
    shown: dict[str, Any] = masked(body)
    if secrets:
        shown["algorithm"]["environments"].update(dict.fromkeys(secrets, MASK))
    return shown


def code_place(job: JobFile, directory: str) -> ObsUrl:
    """The place of the code in OBS: `code-url`, then the job's name, then the name of the code directory."""
    if job.code_url is None:
        raise ValueError("a job without code-url")
    key = "/".join(part for part in (job.code_url.key.rstrip("/"), job.name, directory) if part)
    return ObsUrl(job.code_url.bucket, f"{key}/")


def _path(url: ObsUrl) -> str:
    return f"/{url.bucket}/{url.key.rstrip('/')}/".replace("//", "/")


def _channel(channel: JobChannel, is_object: bool = False) -> dict[str, Any]:
    path = _path(channel.url)
    return {
        "name": channel.name,
        "access_method": "env" if channel.by_variable else "parameter",
        "remote": {"obs": {"obs_url": path.rstrip("/") if is_object else path}},
    }


def _without_empty(value: Any) -> Any:
    """Removes empty fields: the service takes a missing field as its default, but rejects `null`."""
    if not isinstance(value, dict):
        return value
    kept = {name: item if name in _FREE else _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item not in ("", {}, [])}
