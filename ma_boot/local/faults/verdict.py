"""What came of the faults of a rehearsal: for people, and for the matrix of the catalogue."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.local.faults.expect import Expected
from ma_boot.local.faults.grammar import Fault
from path_mapping.config import Route
from path_mapping.plan import local_path

FILE = "verdicts.json"


@dataclass(frozen=True)
class Came:
    """A fault that came, at `at` seconds of the monotonic clock; `problem` is why it could not be made."""

    fault: Fault
    at: float
    problem: Optional[str] = None


@dataclass(frozen=True)
class Home:
    """The files that the nodes have at their output paths: how many they are, and which are not in OBS."""

    files: int
    lost: Tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """One fault and what came of it.

    `seconds` lie between the fault and the end of the job, None for a fault that did not come. `files` and
    `lost` count output files, None where no mapping has outputs in a directory. `wrong` lists what is not as
    expected; None where nothing is.
    """

    fault: str
    came: bool
    code: int
    cause: str
    seconds: Optional[float]
    files: Optional[int]
    lost: Optional[int]
    wrong: Optional[Tuple[str, ...]]

    def lines(self) -> List[str]:
        """Two lines for the last screen."""
        return [f"fault: {self.fault}", f"  {self.said()}"]

    def said(self) -> str:
        """What came of it, in a line."""
        if not self.came and self.wrong:
            return f"{self.wrong[0]}; exit code {self.code}: {self.cause}"
        what = f"the job ended after {self.seconds:.1f} s with exit code {self.code}: {self.cause}"
        if self.seconds is None:
            what = f"exit code {self.code}: {self.cause}"
        return f"{what}; {self._outputs()}; {self._judgement()}"

    def _outputs(self) -> str:
        if self.files is None or self.lost is None:
            return "no outputs to look for"
        if not self.files:
            return "no output files"
        if self.lost:
            return f"outputs: {self.lost} of {self.files} files are not in OBS"
        return f"outputs: all {self.files} files are in OBS"

    def _judgement(self) -> str:
        if self.wrong is None:
            return "nothing in particular is expected"
        return "NOT as expected: " + "; ".join(self.wrong) if self.wrong else "as expected"


def judged(
    fault: Fault,
    came: Optional[Came],
    ended: float,
    code: int,
    cause: str,
    home: Optional[Home],
    wanted: Optional[Expected],
) -> Verdict:
    """The verdict; `ended` is on the monotonic clock, as `came` is."""
    return Verdict(
        fault=str(fault),
        came=came is not None and came.problem is None,
        code=code,
        cause=cause,
        seconds=None if came is None else max(0.0, ended - came.at),
        files=home.files if home else None,
        lost=len(home.lost) if home else None,
        wrong=_wrong(came, code, cause, home, wanted),
    )


def _wrong(
    came: Optional[Came], code: int, cause: str, home: Optional[Home], wanted: Optional[Expected]
) -> Optional[Tuple[str, ...]]:
    if came is None:
        return ("the fault did not come before the job ended",)
    if came.problem is not None:
        return (came.problem,)
    if wanted is None:
        return None
    return contradictions(code, cause, len(home.lost) if home else None, wanted)


def contradictions(code: int, cause: str, lost: Optional[int], wanted: Expected) -> Tuple[str, ...]:
    """What is not as expected; `lost` counts output files that are not in OBS, None where nobody can tell."""
    found = []
    if code != wanted.code:
        found.append(f"expected exit code {int(wanted.code)}")
    if wanted.says not in cause:
        found.append(f"expected {wanted.says!r} as the cause")
    if wanted.home is not None and lost is not None and bool(lost) == wanted.home:
        found.append("expected all outputs in OBS" if wanted.home else "expected that outputs are missing")
    return tuple(found)


def outputs_home(places: Sequence[Tuple[Route, Path]], obs_root: Path) -> Optional[Home]:
    """What of the nodes' outputs is in the directory that plays OBS.

    `places` are routes, each with the directory in which its relative path starts. None without outputs, or
    with patterns: then only part of the files is to go home.
    """
    if not places or any(route.include or route.exclude for route, _ in places):
        return None
    files, lost = 0, []
    for route, base in places:
        local = local_path(route, base)
        for path in _files(local):
            files += 1
            below = "" if path == local else path.relative_to(local).as_posix()
            stored = obs_root / route.remote.bucket / route.remote.key / below
            if not stored.is_file() or stored.stat().st_size != path.stat().st_size:
                lost.append(str(path))
    return Home(files, tuple(lost))


def _files(local: Path) -> List[Path]:
    if local.is_file():
        return [local]
    return [Path(directory, name) for directory, _, names in os.walk(local) for name in names]


def write_verdicts(root: str, verdicts: Sequence[Verdict]) -> None:
    """Leaves them for programs."""
    text = json.dumps([asdict(verdict) for verdict in verdicts], indent=2, ensure_ascii=False)
    Path(root, FILE).write_text(text + "\n", encoding="utf-8")


def read_verdicts(root: Path) -> List[Verdict]:
    """Those that a rehearsal has left in its directory."""
    found: List[Mapping[str, Any]] = json.loads((root / FILE).read_text(encoding="utf-8"))
    return [Verdict(**_tuples(one)) for one in found]


def _tuples(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
