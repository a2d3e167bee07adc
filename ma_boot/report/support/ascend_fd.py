"""Second diagnosis by `ascend-fd` (MindCluster's Ascend FaultDiag), where it is installed.

`ascend-fd parse -i LOGS -o PARSED` reads the logs of one node, and `ascend-fd diag -i PARSED -o RESULT` the
directories of all nodes below PARSED; it prints a table, and writes `fault_diag_result/diag_report.json`.
Source: the user guide of Ascend FaultDiag, and `cli.py` and `controller.py` of Ascend/mind-cluster. It takes
`*rank-*.txt` for outputs of ranks and `process_log` for CANN's logs, which are the names that ma_boot writes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ma_boot.processes.tool import GAVE_UP, NOT_STARTED, run_tool
from ma_boot.redact import masked, without_secrets
from ma_boot.report.explain import without_escapes
from ma_boot.report.files import read_end
from path_mapping.errors import printable

PROGRAM = "ascend-fd"
# Seconds for all of its steps together.
DIAGNOSIS_SECONDS = 120.0
# Bytes of its JSON report, lines that are shown, and characters of each.
MOST_OF_REPORT = 1 << 20
MOST_SHOWN = 60
LONGEST_SHOWN = 300


class SecondDiagnosis(NamedTuple):
    """Findings of ascend-fd as lines, and its JSON report or None; `problem` says why there are none."""

    lines: tuple[str, ...]
    report: Any
    problem: str

    def shown(self) -> list[str]:
        """Returns the lines for people."""
        if self.problem:
            return [f"{PROGRAM}: no findings: {self.problem}"]
        return [
            f"{PROGRAM} (MindCluster's diagnosis of the same logs):",
            *(f"  {line}" for line in self.lines),
        ]

    def fields(self) -> dict[str, Any]:
        """Returns the findings for programs."""
        return {"findings": [*self.lines], "report": self.report, "problem": self.problem or None}


def find_ascend_fd(environ: Mapping[str, str]) -> str | None:
    """Returns the path of ascend-fd; None where it is not installed."""
    return shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))


def log_directories(events: Sequence[Path]) -> dict[str, Path]:
    """Returns the log directories of nodes by the names of ascend-fd, as `worker-0`.

    A rehearsal's own events are beside no log of a rank; nodes with one common directory are one worker.
    """
    named = [(re.search(r"-node-(\d{1,6})-events", file.name), file.parent) for file in events]
    found = {place: f"worker-{match[1]}" for match, place in reversed(named) if match is not None}
    by_name = {name: place for place, name in found.items()}
    return by_name if len(by_name) == len(found) else {f"worker-{n}": at for n, at in enumerate(found)}


def diagnose(program: str, nodes: Mapping[str, Path], environ: Mapping[str, str]) -> SecondDiagnosis:
    """Runs ascend-fd on the log directories of the nodes; its output goes to a temporary directory."""
    until = time.monotonic() + DIAGNOSIS_SECONDS
    place = tempfile.mkdtemp(prefix="ma_boot-ascend-fd-")
    try:
        parsed, result = Path(place, "parsed"), Path(place, "result")
        result.mkdir()
        for name, logs in nodes.items():
            of_node = parsed / name
            of_node.mkdir(parents=True)
            argv = [program, "parse", "-i", str(logs.absolute()), "-o", str(of_node)]
            _, problem = _run(argv, environ, until)
            if problem:
                return SecondDiagnosis((), None, problem)
        text, problem = _run([program, "diag", "-i", str(parsed), "-o", str(result)], environ, until)
        report = _report(result / "fault_diag_result" / "diag_report.json")
    finally:
        # One of its processes that was killed may still write.
        shutil.rmtree(place, ignore_errors=True)
    lines = table_lines(text)
    if not problem and not lines and report is None:
        problem = "it printed no report"
    return SecondDiagnosis(() if problem else lines, report, problem)


def _run(argv: Sequence[str], environ: Mapping[str, str], until: float) -> tuple[str, str]:
    """Returns the output of a step, and why it has failed (or empty)."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        return "", f"not within {DIAGNOSIS_SECONDS:.0f} s"
    code, text = run_tool(argv, environ, with_stderr=True, seconds=seconds)
    if not code:
        return text, ""
    if code in (GAVE_UP, NOT_STARTED):
        return "", f"{argv[1]}: {text}"
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return text, _line(f"{argv[1]} ended with {code}: {last}")


def table_lines(text: str) -> tuple[str, ...]:
    """Returns the rows of its table as lines: `type: description`, without borders and secrets."""
    rows = [line.strip() for line in without_escapes(text).splitlines()]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]
    lines = (": ".join(filter(None, row)) for row in cells)
    return tuple(_line(line) for line in lines if line)[:MOST_SHOWN]


def _line(text: str) -> str:
    return printable(without_secrets(re.sub(r"\s{1,1000}", " ", text)))[:LONGEST_SHOWN]


def _report(file: Path) -> Any:
    """Returns its JSON report without secrets; None without a valid one."""
    try:
        return masked(json.loads(read_end(file, MOST_OF_REPORT)))
    except (OSError, ValueError, RecursionError):
        return None
