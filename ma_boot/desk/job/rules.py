"""Rules of ModelArts' job form: accepted values, and the fields that a submission needs. Pure.

Limits are those of the API's documentation (CreateTrainingJob) and of the console's form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from typing import Any

from ma_boot.desk.job.job_file import JobFile
from ma_boot.desk.job.readers import JobProblem
from ma_boot.redact import is_secret
from path_mapping.mapping.routes import ObsUrl

# The form accepts 100 variables. Each submission adds MABOOT_SUBMISSION, MABOOT_JOB_TOKEN and
# MABOOT_TIME_LIMIT.
MOST_VARIABLES = 97
LONGEST_VALUE = 4096
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# Characters that some shell does not take as a part of one word.
_FOR_A_SHELL = re.compile(r"[^\w@%+=:,./-]")
_HOST = re.compile(r"swr\.(?P<region>[a-z0-9-]+)\.[a-z0-9.-]+/(?P<rest>.*)")
_IMAGE = re.compile(
    r"[a-z](?:[a-z0-9._-]{0,62}[a-z0-9])?/[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*:\w[\w.-]{0,127}", re.ASCII
)
_WORKSPACE = re.compile(r"0|[A-Za-z0-9-]{32}")
_VISUAL = re.compile(r"modelarts\.pool\.visual\.(?:(\d*)xlarge)")
_TYPES: dict[type, str] = {
    dict: "fields",
    list: "a list",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
# The only name with the reserved prefix MA_ that the form accepts.
_FREE = {"MA_RUN_METHOD"}


def image_url(image: str) -> str:
    """Returns the image as the API takes it: without the host of SWR."""
    match = _HOST.fullmatch(image)
    return match["rest"] if match else image


def image_region(image: str) -> str:
    """Returns the region of an image that is written with the host of SWR; else an empty string."""
    match = _HOST.fullmatch(image)
    return match["region"] if match else ""


def form_problems(job: JobFile) -> list[JobProblem]:
    """Reports all values that the job form would reject."""
    return [
        *(*_texts(job), *_variables(job), *_values(job), *_channels(job), *_places(job), *_resources(job)),
        *_request(job),
    ]


def missing_fields(job: JobFile) -> list[JobProblem]:
    """Reports the fields that a submission needs and the job lacks."""
    needed = {
        "name": (job.name, "letters, digits, - and _, at most 64"),
        "image": (job.image, "ORGANIZATION/NAME:TAG in SWR"),
        "command": (job.command, "what follows ma_boot, such as train.py --epochs 90"),
        "flavor": (job.flavor or job.pool, "a flavor of the public pool, or `pool` for a dedicated one"),
    }
    missing = [
        job.problem(key, f"missing, expected {rule}") for key, (value, rule) in needed.items() if not value
    ]
    if not job.code_url:
        missing.append(job.problem("code-url", "missing, expected where the code goes: obs://bucket/jobs/"))
    return missing


def _texts(job: JobFile) -> Iterator[JobProblem]:
    if job.name and not _NAME.fullmatch(job.name):
        yield job.problem("name", f"found {job.name!r}, expected 1 to 64 letters, digits, - and _")
    if len(job.description) > 256:
        yield job.problem("description", f"found {len(job.description)} characters, expected at most 256")
    if job.image and not _IMAGE.fullmatch(image_url(job.image)):
        yield job.problem("image", f"found {job.image!r}, expected ORGANIZATION/NAME:TAG in SWR")
    if job.workspace and not _WORKSPACE.fullmatch(job.workspace):
        yield job.problem("workspace", f"found {job.workspace!r}, expected 0 or an id of 32 characters")
    for word in (*job.boot_options, *job.command):
        if "\n" in word or "\r" in word:
            yield job.problem("command", f"found a line break in {word!r}, which the job form refuses")


def _variables(job: JobFile) -> Iterator[JobProblem]:
    count = len(job.environment) + len(job.secrets)
    if count > MOST_VARIABLES:
        yield job.problem("environment", f"found {count} variables, expected at most {MOST_VARIABLES}")
    variables = [
        *((f"environment: {name}", name) for name in job.environment),
        *(("secrets", name) for name in job.secrets),
        *((f"{key}: {channel.name}", channel.name) for key, channel in job.channels if channel.by_variable),
    ]
    for where, name in variables:
        if not _VARIABLE.fullmatch(name):
            yield job.problem(where, f"found the name {name!r}, expected letters, digits and _")
        elif name.startswith("MA_") and name not in _FREE:
            yield job.problem(where, f"found {name}, but names that begin with MA_ are ModelArts' own")
    for name, value in job.parameters.items():
        if not _PARAMETER.fullmatch(name):
            yield job.problem(f"parameters: {name}", "expected a name of letters, digits, _, - and .")
        changed = sorted({*_FOR_A_SHELL.findall(value)})
        if changed:
            text = f"found {' '.join(map(repr, changed))}, which a shell may change, as the platform appends "
            text += "it as text; put it into `environment`, a file of the code, or in quotes into `command`"
            yield job.problem(f"parameters: {name}", text)


def _values(job: JobFile) -> Iterator[JobProblem]:
    for name, value in job.environment.items():
        if len(value) > LONGEST_VALUE:
            text = f"found {len(value)} characters, expected at most {LONGEST_VALUE}"
            yield job.problem(f"environment: {name}", text)
        if name in job.secrets:
            yield job.problem("secrets", f"{name} has a value in `environment`, too")


def _channels(job: JobFile) -> Iterator[JobProblem]:
    seen: dict[str, str] = {}
    for key, channel in job.channels:
        if channel.name in seen:
            yield job.problem(f"{key}: {channel.name}", f"is a name of {seen[channel.name]}, too")
        seen[channel.name] = key
        if channel.by_variable and channel.name in (*job.environment, *job.secrets):
            yield job.problem(f"{key}: {channel.name}", "is a variable of `environment` or `secrets`, too")
    for name in job.parameters:
        if name in seen:
            yield job.problem(f"parameters: {name}", f"is a name of {seen[name]}, too")


def _places(job: JobFile) -> Iterator[JobProblem]:
    for first, other in combinations(job.outputs, 2):
        if str(first.url).rstrip("/") == str(other.url).rstrip("/"):
            yield job.problem(
                f"outputs: {other.name}", f"goes to the same place as {first.name}: {first.url}"
            )
    code = f"{str(job.code_url).rstrip('/')}/{job.name}/"
    for output in job.outputs:
        if job.code_url and code.startswith(f"{str(output.url).rstrip('/')}/"):
            yield job.problem(f"outputs: {output.name}", f"the code would be inside it: {code}")
        for taken in job.inputs:
            if str(output.url).rstrip("/") == str(taken.url).rstrip("/"):
                yield job.problem(f"outputs: {output.name}", f"would be written over the input {taken.name}")


def _resources(job: JobFile) -> Iterator[JobProblem]:
    visual = _VISUAL.fullmatch(job.flavor)
    if job.flavor and not visual and job.pool:
        yield job.problem("flavor", "expected modelarts.pool.visual.* with a pool, or no pool")
    if visual and not job.pool:
        yield job.problem("flavor", f"{job.flavor} is for a dedicated pool: add its id as `pool`")
    cards = int(visual[1] or 1) if visual else 0
    yield from _other_cards(job, cards)


def _other_cards(job: JobFile, cards: int) -> Iterator[JobProblem]:
    """Reports a flavor with another number of cards; `cards` is 0 if it is unknown."""
    if cards and cards != job.devices_per_node:
        text = f"{job.flavor} has {cards} cards, but devices-per-node is {job.devices_per_node}"
        yield job.problem("flavor", text)


def _request(job: JobFile) -> Iterator[JobProblem]:
    """Reports parts of the request whose type differs from the field they are merged into."""
    parts = {part: job.request.get(part, {}) for part in ("algorithm", "metadata", "spec")}
    for part, value in parts.items():
        yield from _other_type(job, part, value, dict)
    fields = {part: value if isinstance(value, dict) else {} for part, value in parts.items()}
    yield from _other_type(job, "metadata: name", fields["metadata"].get("name", ""), str)
    variables = fields["algorithm"].get("environments", {})
    yield from _other_type(job, "algorithm: environments", variables, dict)
    for name, value in variables.items() if isinstance(variables, dict) else ():
        yield from _other_type(job, f"algorithm: environments: {name}", value, str)
    parameters = fields["algorithm"].get("parameters", [])
    yield from _other_type(job, "algorithm: parameters", parameters, list)
    for value in parameters if isinstance(parameters, list) else ():
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            yield job.problem("request: algorithm: parameters", "expected `name: NAME` in each item")


def _other_type(job: JobFile, part: str, value: Any, expected: type) -> Iterator[JobProblem]:
    """Reports a value of the wrong type without showing it: it may be a secret."""
    if not isinstance(value, expected):
        kind = _TYPES.get(type(value), "a number")
        yield job.problem(f"request: {part}", f"found {kind}, expected {_TYPES[expected]}")


def places_of(job: JobFile) -> list[tuple[str, ObsUrl]]:
    """Returns the places of a job in OBS, each with its key."""
    urls = (("code-url", job.code_url), ("log-url", job.log_url))
    return [
        *((key, url) for key, url in urls if url is not None),
        *((f"{key}: {channel.name}", channel.url) for key, channel in job.channels),
    ]


def quota_problems(job: JobFile, quotas: Sequence[Mapping[str, Any]]) -> list[JobProblem]:
    """Reports a quota of training jobs that is used up, by the API's answer."""
    return [
        job.problem("", f"the quota of job-num is used up: {quota['used']} of {quota['quota']}")
        for quota in quotas
        if quota["resource"] == "job-num" and None not in (quota["quota"], quota["used"])
        if 0 <= quota["quota"] <= quota["used"]
    ]


def flavor_problems(job: JobFile, flavors: Sequence[Mapping[str, Any]]) -> list[JobProblem]:
    """Reports an unknown or unfit flavor of the public pool, by the API's list of flavors."""
    named = {flavor["flavor_id"] or "": flavor for flavor in flavors}
    flavor = named.get(job.flavor)
    if flavor is None:
        near = get_close_matches(job.flavor, list(named), n=5, cutoff=0) if named else []
        expected = f"expected a flavor of this region such as {', '.join(near)}"
        return [job.problem("flavor", f"found {job.flavor}, {expected}")] if near else []
    info = flavor["flavor_info"]
    most = flavor["max_num"] or info["max_num"] or job.nodes
    cards = info["npu"]["unit_num"] or info["gpu"]["unit_num"] or 0
    too_many = job.problem("nodes", f"found {job.nodes}, but {job.flavor} has at most {most}")
    return [*([too_many] if job.nodes > most else []), *_other_cards(job, cards)]


def exposed_secrets(job: JobFile) -> list[JobProblem]:
    """Reports variables with a secret's name: all users who can see the job can read their values."""
    return [
        job.problem(
            f"environment: {name}",
            "the value of a secret in the file; name the variable in `secrets` instead, so that the value "
            "comes from your shell. All who may see the job in ModelArts can read either",
        )
        for name, value in job.environment.items()
        if is_secret(name, value)
    ]


def keys_missing(job: JobFile) -> list[JobProblem]:
    """Reports a path mapping without keys for OBS; the nodes need them unless the image contains some."""
    if not job.has_mapping or {"OBS_ACCESS_KEY_ID", "ACCESS_KEY_ID"} & {*job.secrets, *job.environment}:
        return []
    text = "no keys for the path mapping; expected OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY of your shell"
    return [job.problem("secrets", text)]
