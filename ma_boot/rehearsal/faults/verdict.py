"""What came of the faults of a rehearsal: for people, and for the matrix of the catalogue."""

from __future__ import annotations

import filecmp
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ma_boot.rehearsal.faults.expect import Expected
from ma_boot.rehearsal.faults.grammar import Fault
from path_mapping.mapping import Route

FILE = "verdicts.json"
COLUMNS = 88  # of a terminal's 100, behind what stands before each line


@dataclass(frozen=True)
class Came:
    """A fault that came, at `at` seconds of the monotonic clock; `problem` is why it could not be made."""

    fault: Fault
    at: float
    problem: Optional[str] = None


@dataclass(frozen=True)
class Home:
    """The files that the nodes have at their output paths: how many, and which are not in OBS as they are."""

    files: int
    lost: Tuple[str, ...]


@dataclass(frozen=True)
class End:
    """How a rehearsal ended.

    `code` and `cause` are the job's, `at` is on the monotonic clock. `starts` counts those of the job, `home`
    is None where nobody can tell, `left` are processes that still ran.
    """

    code: int
    cause: str
    at: float
    starts: int = 1
    home: Optional[Home] = None
    left: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """One fault and what came of it.

    `seconds` lie between the fault and the end of the job, None for a fault that did not come. `files` and
    `lost` count output files, None where nobody can tell. `wrong` lists what is not as expected; None where
    nothing in particular is.
    """

    fault: str
    came: bool
    code: int
    cause: str
    seconds: Optional[float]
    files: Optional[int]
    lost: Optional[int]
    wrong: Optional[Tuple[str, ...]]

    def end(self) -> End:
        """The end of the rehearsal, as far as the verdict has kept it."""
        home = None if self.files is None else Home(self.files, ("",) * (self.lost or 0))
        return End(self.code, self.cause, 0.0, home=home)

    def lines(self) -> List[str]:
        """For the last screen."""
        return [f"fault: {self.fault}", *(f"  {line}" for line in (*self.story(), *self.judgement()))]

    def story(self) -> List[str]:
        """What came of it, a fact a line."""
        if self.seconds is None:
            return []
        return [
            f"the job ended {self.seconds:.1f} s after it with exit code {self.code}",
            shortened(f"the cause: {self.cause}"),
            self._outputs(),
        ]

    def _outputs(self) -> str:
        if self.files is None or self.lost is None:
            return "no outputs that could be looked for in OBS"
        if not self.files:
            return "there were no output files"
        if self.lost:
            return f"outputs: {self.lost} of {self.files} files are not in OBS"
        return f"outputs: all {self.files} files are in OBS"

    def judgement(self) -> List[str]:
        """Whether that is as expected."""
        if self.wrong is None:
            return ["nothing in particular is expected"]
        return [shortened(f"NOT as expected: {problem}") for problem in self.wrong] or ["as expected"]


def shortened(text: str) -> str:
    """So much of it that the line fits the screen."""
    return text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def judged(fault: Fault, came: Union[Came, str], end: End, wanted: Optional[Expected]) -> Verdict:
    """The verdict; for a fault that did not come, `came` says why."""
    return Verdict(
        fault=str(fault),
        came=isinstance(came, Came) and came.problem is None,
        code=end.code,
        cause=end.cause,
        seconds=max(0.0, end.at - came.at) if isinstance(came, Came) else None,
        files=end.home.files if end.home else None,
        lost=len(end.home.lost) if end.home else None,
        wrong=_wrong(came, end, wanted),
    )


def _wrong(came: Union[Came, str], end: End, wanted: Optional[Expected]) -> Optional[Tuple[str, ...]]:
    left = [f"processes still ran when it was over: {', '.join(map(str, end.left))}"] if end.left else []
    if isinstance(came, str):
        return (f"it did not come: {came}", *left)
    if came.problem is not None:
        return (came.problem, *left)
    if wanted is None:
        return tuple(left) or None
    return (*contradictions(end, wanted), *left)


def contradictions(end: End, wanted: Expected) -> Iterator[str]:
    """What is not as expected."""
    if end.code != wanted.code:
        yield f"expected exit code {int(wanted.code)}, found {end.code}: {end.cause}"
    elif wanted.says not in end.cause:
        yield f"expected {wanted.says!r} as the cause, found {end.cause!r}"
    if end.starts != wanted.starts:
        yield f"expected {wanted.starts} starts of the job, found {end.starts}"
    if wanted.home is not None and end.home is not None and bool(end.home.lost) == wanted.home:
        yield "expected all outputs in OBS" if wanted.home else "expected that outputs are missing"


def outputs_home(places: Sequence[Tuple[Route, Path]], obs_root: Path) -> Optional[Home]:
    """What of the nodes' outputs is in the directory that plays OBS.

    `places` are routes, each with the directory in which its relative path starts. None without outputs, or
    with patterns: then only part of the files is to go home.
    """
    if not places or any(route.include or route.exclude for route, _ in places):
        return None
    files, lost = 0, []
    for route, base in places:
        local = route.path(base)
        for path in _files(local):
            files += 1
            below = "" if path == local else path.relative_to(local).as_posix()
            stored = obs_root / route.remote.bucket / route.remote.key / below
            if not stored.is_file() or not filecmp.cmp(stored, path, shallow=False):
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
