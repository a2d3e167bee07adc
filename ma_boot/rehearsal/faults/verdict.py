"""The verdict on one fault of a rehearsal: what happened, and whether that was expected. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple, Union

from ma_boot.rehearsal.faults.expectations import Expected
from ma_boot.rehearsal.faults.grammar import Fault

COLUMNS = 88  # leaves room for the prefix of each line on a terminal of 100 columns


@dataclass(frozen=True)
class InjectedFault:
    """A fault, and when it was injected (seconds on the monotonic clock); `problem` says why that failed."""

    fault: Fault
    at: float
    problem: Optional[str] = None


@dataclass(frozen=True)
class OutputFiles:
    """How many files the nodes have at their output paths, and which of them OBS lacks or has otherwise."""

    count: int
    missing: Tuple[str, ...]


@dataclass(frozen=True)
class JobEnd:
    """How a rehearsed job ended.

    `at` is on the monotonic clock; `starts` counts the starts of the job; `outputs` is None where that cannot
    be determined; `left` are the PIDs of processes that were still running.
    """

    code: int
    cause: str
    at: float
    starts: int = 1
    outputs: Optional[OutputFiles] = None
    left: Tuple[int, ...] = ()


@dataclass(frozen=True)
class FaultVerdict:
    """What came of one fault; the fields are those of `verdicts.json`.

    `seconds` passed between the fault and the end of the job, None if the fault was not injected. `files` and
    `lost` count output files, None if unknown. `wrong` lists what was not expected, None if no particular
    outcome was.
    """

    fault: str
    came: bool
    code: int
    cause: str
    seconds: Optional[float]
    files: Optional[int]
    lost: Optional[int]
    wrong: Optional[Tuple[str, ...]]

    def end(self) -> JobEnd:
        """The end of the job, as far as the verdict records it."""
        outputs = None if self.files is None else OutputFiles(self.files, ("",) * (self.lost or 0))
        return JobEnd(self.code, self.cause, 0.0, outputs=outputs)

    def lines(self) -> List[str]:
        """The verdict as the rehearsal prints it."""
        return [f"fault: {self.fault}", *(f"  {line}" for line in (*self._story(), *self.judgement()))]

    def _story(self) -> List[str]:
        if self.seconds is None:
            return []
        return [
            f"the job ended {self.seconds:.1f} s after it with exit code {self.code}",
            _shortened(f"the cause: {self.cause}"),
            self._outputs(),
        ]

    def _outputs(self) -> str:
        if self.files is None or self.lost is None:
            return "outputs: not checked"
        if not self.files:
            return "outputs: no files"
        if self.lost:
            return f"outputs: {self.lost} of {self.files} files are not in OBS"
        return f"outputs: all {self.files} files are in OBS"

    def judgement(self) -> List[str]:
        """Whether the outcome was expected, a line for each deviation."""
        if self.wrong is None:
            return ["no particular outcome was expected"]
        return [_shortened(f"NOT as expected: {problem}") for problem in self.wrong] or ["as expected"]


def _shortened(text: str) -> str:
    return text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "\N{HORIZONTAL ELLIPSIS}"


def verdict_on(
    fault: Fault, injected: Union[InjectedFault, str], end: JobEnd, wanted: Optional[Expected]
) -> FaultVerdict:
    """The verdict on a fault; for one that was not injected, `injected` says why."""
    return FaultVerdict(
        fault=str(fault),
        came=isinstance(injected, InjectedFault) and injected.problem is None,
        code=end.code,
        cause=end.cause,
        seconds=max(0.0, end.at - injected.at) if isinstance(injected, InjectedFault) else None,
        files=end.outputs.count if end.outputs else None,
        lost=len(end.outputs.missing) if end.outputs else None,
        wrong=_wrong(injected, end, wanted),
    )


def _wrong(
    injected: Union[InjectedFault, str], end: JobEnd, wanted: Optional[Expected]
) -> Optional[Tuple[str, ...]]:
    left = [f"processes still running at the end: {', '.join(map(str, end.left))}"] if end.left else []
    if isinstance(injected, str):
        return (f"the fault was not injected: {injected}", *left)
    if injected.problem is not None:
        return (injected.problem, *left)
    if wanted is None:
        return tuple(left) or None
    return (*deviations(end, wanted), *left)


def deviations(end: JobEnd, wanted: Expected) -> Iterator[str]:
    """Where the end of the job differs from the expected one."""
    if end.code != wanted.code:
        yield f"expected exit code {int(wanted.code)}, found {end.code}: {end.cause}"
    elif wanted.cause not in end.cause:
        yield f"expected {wanted.cause!r} as the cause, found {end.cause!r}"
    if end.starts != wanted.starts:
        yield f"expected {wanted.starts} starts of the job, found {end.starts}"
    if wanted.uploaded is None or end.outputs is None:
        return
    if wanted.uploaded == bool(end.outputs.missing):
        yield "expected all outputs in OBS" if wanted.uploaded else "expected outputs missing from OBS"
