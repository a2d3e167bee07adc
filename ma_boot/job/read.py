"""Reads a job file: YAML, whose every mistake is reported with its line. Pure."""

from __future__ import annotations

import difflib
from typing import Any, Dict, List, Tuple

from ma_boot.job.job_file import JobFile, JobProblem
from ma_boot.job.keys import KEYS, pairs_of
from path_mapping.mapping import DictValue, ScalarValue, Value, read_yaml


def parse_job(text: str) -> Tuple[JobFile, List[JobProblem]]:
    """The job in a text of YAML, and all its mistakes; what is wrong has its default in the job."""
    problems: List[JobProblem] = []
    syntax: List[str] = []
    root = read_yaml(text, syntax)
    problems += [_of_syntax(one) for one in syntax]
    if root is None or (isinstance(root, ScalarValue) and root.value is None):
        return JobFile(), problems
    values: Dict[str, Any] = {}
    for key, value in pairs_of("", root, problems):
        reader = KEYS.get(key)
        if reader is None:
            problems.append(JobProblem(value.line, key, f"no such key{_similar(key)}"))
        elif not (isinstance(value, ScalarValue) and value.value is None):
            values[key.replace("-", "_")] = reader(key, value, problems)
    return JobFile(**values, lines=_lines(root)), problems


def _of_syntax(text: str) -> JobProblem:
    """A problem of the reader, whose line is a part of its text."""
    place, _, rest = text.partition(": ")
    number = place[len("line ") :]
    return JobProblem(int(number), "", rest) if number.isdecimal() else JobProblem(None, "", text)


def _similar(key: str) -> str:
    near = difflib.get_close_matches(key.lower().replace("_", "-"), list(KEYS), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f", expected one of {', '.join(KEYS)}"


def _lines(root: Value, above: str = "") -> Dict[str, int]:
    """The lines of the keys, and of the keys of their dicts: `inputs: data_url`."""
    found: Dict[str, int] = {}
    for name, value in root.pairs if isinstance(root, DictValue) else ():
        key = above + (str(name.value) if isinstance(name, ScalarValue) else "")
        if name.line:
            found[key] = name.line
        found.update(_lines(value, f"{key}: "))
    return found
