"""Files of a job in OBS: uploads its code, downloads its logs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ma_boot.desk.job.job_file import JobFile
from ma_boot.desk.job.readers import JobProblem
from ma_boot.desk.job.request import code_place
from ma_boot.desk.rehearsal.platform.code_directory import NOT_CODE, code_directory, code_files, script_in
from ma_boot.errors import BootError, ConfigError, InputMissing, StoreUnavailable
from ma_boot.node.environment.command_words import read_command
from ma_boot.report.hints import with_store_hint
from path_mapping.errors import CredentialsMissing, MissingInputs, PathMappingError
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import literal_pattern
from path_mapping.stores.open_store import open_store
from path_mapping.transfer.transfer import download, upload
from path_mapping.workers.retry import RetriedStore

# Options that name a file in the job's code.
_FILES = ("path-mapping", "source", "requirements")


@dataclass(frozen=True)
class JobCode:
    """The code of a job: local directory, files relative to it, their size in bytes, and place in OBS.

    `ignored` is what .gitignore files leave out.

    `command` and `options` are those of the job, with the script and files relative to the directory.
    """

    directory: Path
    files: tuple[Path, ...]
    ignored: tuple[str, ...]
    bytes: int
    url: ObsUrl
    command: tuple[str, ...]
    options: tuple[str, ...]


def job_code(job: JobFile, cwd: str, problems: list[JobProblem]) -> JobCode:
    """Collects the job's code in this directory; appends mistakes to `problems`."""
    directory, command, size = Path(cwd), job.command, 0
    files: tuple[Path, ...] = ()
    ignored: tuple[str, ...] = ()
    try:
        code, training = code_directory(read_command(job.command), job.code_dir or None, cwd)
        command = training.words
        if code is None and job.command:
            problems.append(job.problem("code-dir", "missing, as the command names no file here"))
        elif code is not None:
            directory = code
            script = script_in(code, training)
            files, ignored = code_files(directory, (), job.exclude, script=script)
            size = sum((directory / file).stat().st_size for file in files)
    except BootError as error:
        problems.append(job.problem("code-dir" if isinstance(error, ConfigError) else "command", str(error)))
    options = tuple(_in_code(job, word, directory, cwd, problems) for word in job.boot_options)
    url = code_place(job, directory.name) if job.code_url else ObsUrl("unknown", "")
    return JobCode(directory, files, ignored=ignored, bytes=size, url=url, command=command, options=options)


def _in_code(job: JobFile, word: str, code: Path, cwd: str, problems: list[JobProblem]) -> str:
    """Returns an option with its file relative to the code, where the nodes look for it."""
    name, given, value = word[2:].partition("=")
    if name not in _FILES or not given:
        return word
    for place in (Path(cwd, value), code / value):
        if not place.is_file():
            continue
        if code in place.resolve().parents:
            return f"--{name}={place.resolve().relative_to(code)}"
        if not os.path.isabs(value):
            problems.append(job.problem(f"options: {name}", f"{value} is not in the code directory {code}"))
        return word
    if name != "source" or not os.path.isabs(value):
        problems.append(job.problem(f"options: {name}", f"{value}: no such file here, or in {code}"))
    return word


def upload_code(code: JobCode, environ: Mapping[str, str]) -> int:
    """Uploads the changed files of the code and returns their number.

    Removes files of an earlier upload that are no longer part of the code. Raises `ConfigError` without
    credentials for OBS, `StoreUnavailable` if the upload failed.
    """
    include = tuple(literal_pattern(file.as_posix()) for file in code.files)
    exclude = tuple(f"{name}/" for name in sorted(NOT_CODE))
    route = Route(str(code.directory), code.url, include=include, exclude=exclude, delete=True)
    with _errors("the code was not uploaded"):
        store = open_store(environ, None)
        moved = upload([route], code.directory, RetriedStore(store))
    return moved.files


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Maps errors of path_mapping to errors with an exit code."""
    try:
        yield
    except CredentialsMissing as error:
        raise ConfigError(with_store_hint(str(error))) from error
    except PathMappingError as error:
        raise StoreUnavailable(with_store_hint(f"{what}: {error}")) from error


def log_place(details: Mapping[str, Any]) -> ObsUrl:
    """Returns the place of a job's logs. Raises `InputMissing` for a job without a log path."""
    path = details["spec"]["log_export_path"]["obs_url"] or ""
    try:
        return ObsUrl.parse(path if "://" in path else f"obs:/{path}")
    except ValueError as error:
        raise InputMissing(
            "the job has no log path in OBS, where its nodes' events would be: set log-url in the job file "
            "before the job is submitted"
        ) from error


def fetched_logs(url: ObsUrl, job: str, target: Path, environ: Mapping[str, str]) -> list[Path]:
    """Downloads new files from the log path and returns the event files of the job.

    Files are named after the job's id. If none has the id, and all are of one job, these are taken. Raises
    `InputMissing` if there are no events, `ConfigError` without credentials for OBS, `StoreUnavailable` if
    OBS does not answer or rejects the request.
    """
    route = Route(str(target), url, include=("*.jsonl", "*.json", "*.log", "*.txt"))
    with _errors(str(url)):
        store = open_store(environ, None)
        try:
            download([route], Path.cwd(), RetriedStore(store))
        except MissingInputs as error:
            raise InputMissing(f"the log path {url} is empty: {error}") from error
    events = sorted(target.rglob("*-events.jsonl"))
    if not events:
        raise InputMissing(f"{url} has no events of ma_boot; do the nodes run it, and has the job begun?")
    of_job = [file for file in events if job in file.name]
    others = {re.sub(r"(-node-\d+)?-events\.jsonl$", "", file.name) for file in events}
    if not of_job and len(others) > 1:
        raise InputMissing(f"{url} has events of {len(others)} other jobs, and none of {job}")
    return of_job or events
