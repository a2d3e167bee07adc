"""The job file: one table of keys; reading reports every mistake with its line. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ma_boot.desk.job.readers import (
    JobChannel,
    JobProblem,
    Reader,
    pairs_of,
    read_channels,
    read_count,
    read_hours,
    read_json_object,
    read_options,
    read_patterns,
    read_retry,
    read_text,
    read_texts,
    read_texts_by_name,
    read_url,
    read_words,
)
from ma_boot.platform.modelarts.job import JOB_TOKEN
from path_mapping.mapping.document import DictValue, ScalarValue, Value, read_yaml
from path_mapping.mapping.routes import ObsUrl


def _key(read: Reader, default: Any, about: str) -> Any:
    """Declares a key of the file: reader of its value, default, and words in the documentation."""
    metadata = {"read": read, "about": about}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class JobFile:
    """A training job. Each field is a key of the file, with hyphens for underscores.

    `command` is the training command, `options` are those of ma_boot as words of a command line. `time_limit`
    is in hours. `secrets` names variables of the submitting shell whose values the job receives. `request` is
    merged into the API request unchanged, `manifest` into the manifest of a cluster. `lines` are the line
    numbers of the keys in the file.
    """

    name: str = _key(read_text, "", "letters, digits, `-` and `_`, at most 64")
    description: str = _key(read_text, "", "at most 256 characters")
    image: str = _key(read_text, "", "`ORGANIZATION/NAME:TAG` in SWR, with or without its registry")
    command: tuple[str, ...] = _key(
        read_words,
        (),
        "what follows `ma_boot` and its options: a text that is split into words but run by no shell, or a "
        "list of words",
    )
    options: tuple[str, ...] = _key(
        read_options,
        (),
        "options of `ma_boot` by their long names: `tee: first`, `preflight: true`, `source: [a.sh, b.sh]`",
    )
    nodes: int = _key(read_count(1, 1024), 1, "1 by default")
    devices_per_node: int = _key(read_count(1, 16), 1, "1 by default")
    pool: str = _key(read_text, "", "the id of a dedicated pool")
    flavor: str = _key(
        read_text,
        "",
        "`modelarts.pool.visual.8xlarge` for 8 cards per node of a dedicated pool, or a flavor of the public "
        "pool",
    )
    code_dir: str = _key(read_text, "", "the code's directory; the script's by default")
    code_url: ObsUrl | None = _key(read_url, None, "the code goes to `CODE-URL/NAME/DIRECTORY/`")
    exclude: tuple[str, ...] = _key(read_patterns, (), "parts of the code not to upload, as in `.gitignore`")
    inputs: tuple[JobChannel, ...] = _key(
        read_channels,
        (),
        "`data_url: obs://bucket/data/` becomes `--data_url=PATH`; `data_url@env: ...` the variable "
        "`data_url`",
    )
    outputs: tuple[JobChannel, ...] = _key(read_channels, (), "as `inputs`")
    parameters: Mapping[str, str] = _key(
        read_texts_by_name,
        {},
        "`lr: 0.1` becomes `--lr=0.1`, after inputs and outputs; numbers stay as they are written",
    )
    environment: Mapping[str, str] = _key(
        read_texts_by_name, {}, "at most 97 variables; no names that begin with `MA_`"
    )
    secrets: tuple[str, ...] = _key(
        read_texts, (), "variables of the shell that submits the job, whose values the job gets"
    )
    log_url: ObsUrl | None = _key(
        read_url, None, "where the platform puts logs; `ma_boot job report` needs it"
    )
    retries: int = _key(read_count(0, 128), 0, "restarts by the platform after a fault, 0 to 128")
    retry: tuple[str, ...] = _key(
        read_retry,
        (),
        "regular expressions for messages of failures, before the rules of `ma_boot`: `when: [REGEX]` is "
        "worth a restart, `never: [REGEX]` is not",
    )
    time_limit: int = _key(
        read_hours, 0, "the platform stops the job after this: `24h`, `3d`; see `should_save()`"
    )
    workspace: str = _key(read_text, "", "a workspace of ModelArts")
    request: Mapping[str, Any] = _key(
        read_json_object,
        {},
        "merged into the request unchanged: `request: {spec: {schedule_policy: {priority: 2}}}`",
    )
    manifest: Mapping[str, Any] = _key(
        read_json_object,
        {},
        "merged into the Job of `ma_boot job manifest`, lists by the names of their items: "
        "`manifest: {spec: {queue: vision}}`; `null` removes a field",
    )
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def boot_options(self) -> tuple[str, ...]:
        """The options of the boot command: those of the file, and the expressions for failures."""
        return (*self.options, *self.retry)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the job: those of the file, and the time limit in seconds."""
        limit = {"MABOOT_TIME_LIMIT": str(self.time_limit * 3600)} if self.time_limit else {}
        return {**limit, **self.environment}

    def problem(self, key: str, text: str) -> JobProblem:
        """Makes a problem at a key, or at a part of it: `inputs: data_url`."""
        return JobProblem(self.lines.get(key) or self.lines.get(f"{key}@env"), key, text)

    @property
    def channels(self) -> tuple[tuple[str, JobChannel], ...]:
        """Inputs and outputs, each with its key."""
        keys = {"inputs": self.inputs, "outputs": self.outputs}
        return tuple((key, channel) for key, channels in keys.items() for channel in channels)

    @property
    def has_mapping(self) -> bool:
        """True if the options include a path mapping."""
        return any(word.startswith("--path-mapping=") for word in self.options)

    @property
    def needs_token(self) -> bool:
        """True for several nodes without a job token: each submission generates one."""
        return self.nodes > 1 and JOB_TOKEN not in (*self.environment, *self.secrets)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The hyper-parameters as the platform appends them to the boot command, after the channels."""
        return tuple(f"--{name}={value}" for name, value in self.parameters.items())


KEYS: Mapping[str, Mapping[str, Any]] = {
    each.name.replace("_", "-"): each.metadata for each in fields(JobFile) if "read" in each.metadata
}
# Maximum number of unknown keys with a message of their own; a file of another kind has hundreds.
_EACH = 5
# Readers of keys whose value is a dict NAME: VALUE.
_BY_NAME = (read_channels, read_texts_by_name, read_options, read_json_object, read_retry)


def parse_job(text: str) -> tuple[JobFile, list[JobProblem]]:
    """Parses YAML text; returns the job and all mistakes. A key with a mistake has its default in the job."""
    syntax: list[str] = []
    root = read_yaml(text, syntax)
    problems = [_of_syntax(mistake) for mistake in syntax]
    if syntax or root is None or (isinstance(root, ScalarValue) and root.value is None):
        return JobFile(), problems
    values: dict[str, Any] = {}
    pairs = list(pairs_of("", root, problems))
    unknown = [JobProblem(value.line, key, "") for key, value in pairs if key not in KEYS]
    if len(unknown) > _EACH:
        text = f"{', '.join(problem.key for problem in unknown[:_EACH])}, ...{_similar('')}"
        problems.append(JobProblem(unknown[0].line, f"{len(unknown)} unknown keys", text))
    for key, value in pairs:
        if key not in KEYS:
            if len(unknown) <= _EACH:
                problems.append(JobProblem(value.line, key, f"no such key{_similar(key)}"))
        elif not (isinstance(value, ScalarValue) and value.value is None):
            values[key.replace("-", "_")] = KEYS[key]["read"](key, value, problems)
    return JobFile(**values, lines=_lines(root)), problems


def with_settings(job: JobFile, settings: Sequence[str], problems: list[JobProblem]) -> JobFile:
    """Returns the job with the values of `--set`: `KEY=VALUE`, or `KEY.NAME=VALUE` for keys with names.

    Values of `request` and `manifest` are YAML; their names may have several parts: `manifest.spec.queue`.
    """
    for setting in settings:
        place, given, text = setting.partition("=")
        key, dot, name = place.partition(".")
        where = f"--set {place}"
        if key not in KEYS:
            problems.append(JobProblem(None, where, f"no such key{_similar(key)}"))
        elif not given or bool(dot) != (KEYS[key]["read"] in _BY_NAME):
            form = f"{key}.NAME=VALUE" if KEYS[key]["read"] in _BY_NAME else f"{key}=VALUE"
            problems.append(JobProblem(None, where, f"expected {form}"))
        else:
            is_json = KEYS[key]["read"] is read_json_object
            syntax: list[str] = []
            value = (read_yaml(text, syntax) if is_json else None) or _scalar(text, flag=key == "options")
            problems += [JobProblem(None, where, mistake) for mistake in syntax]
            for part in reversed(name.split(".") if is_json else [name][: bool(dot)]):
                value = DictValue(None, repr(text), ((ScalarValue(None, repr(part), part), value),))
            job = overridden(job, {key.replace("-", "_"): KEYS[key]["read"](where, value, problems)})
    return job


def _scalar(text: str, flag: bool) -> ScalarValue:
    """Reads a value of the command line as the file would have it."""
    if flag and text in ("true", "false"):
        return ScalarValue(None, text, text == "true")
    number = text.isascii() and text.isdecimal() and len(text) < 19
    return ScalarValue(None, text, int(text)) if number else ScalarValue(None, repr(text), text)


def overridden(job: JobFile, given: Mapping[str, Any]) -> JobFile:
    """Returns the job with new values: options and patterns are appended; channels, parameters and variables
    are replaced or added by name; all other values are replaced."""
    changes: dict[str, Any] = {}
    replaced: set[str] = set()
    for name, value in given.items():
        current, key = getattr(job, name), name.replace("_", "-")
        if name == "command" or not isinstance(current, (tuple, dict)):
            changes[name] = value
            replaced.add(key)
            continue
        replaced |= {f"{key}: {getattr(item, 'name', item)}" for item in value}
        if isinstance(current, dict):
            changes[name] = merged(current, value)
        elif name in ("inputs", "outputs"):
            changes[name] = tuple({channel.name: channel for channel in (*current, *value)}.values())
        else:
            changes[name] = (*current, *value)
    lines = {key: line for key, line in job.lines.items() if key.partition("@")[0] not in replaced}
    return replace(job, **changes, lines=lines)


def merged(body: Any, more: Any, by_name: bool = False) -> Any:
    """Merges fields into the body, dicts recursively.

    With `by_name`, as in Kubernetes, lists of named items are merged by name, and null removes a field.
    """
    if by_name and _are_named(body) and _are_named(more):
        ours, theirs = ({item["name"]: item for item in items} for items in (body, more))
        return list(merged(ours, theirs, by_name).values())
    if not isinstance(body, dict) or not isinstance(more, dict):
        return more
    both = {name: merged(body[name], more[name], by_name) for name in more if name in body}
    fields = {**body, **more, **both}
    return {name: value for name, value in fields.items() if not by_name or value is not None}


def _are_named(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(item, dict) and "name" in item for item in items)


def _of_syntax(text: str) -> JobProblem:
    """Turns an error of the YAML reader, whose text contains the line, into a problem."""
    place, _, rest = text.partition(": ")
    number = place[len("line ") :]
    return JobProblem(int(number), "", rest) if number.isdecimal() else JobProblem(None, "", text)


def _similar(key: str) -> str:
    near = difflib.get_close_matches(key.lower().replace("_", "-"), list(KEYS), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f", expected one of {', '.join(KEYS)}"


def _lines(root: Value, above: str = "") -> dict[str, int]:
    """Returns the line numbers of the keys and of the keys of their dicts, such as `inputs: data_url`."""
    lines: dict[str, int] = {}
    for name, value in root.pairs if isinstance(root, DictValue) else ():
        key = above + (str(name.value) if isinstance(name, ScalarValue) else "")
        if name.line:
            lines[key] = name.line
        lines.update(_lines(value, f"{key}: "))
    return lines
