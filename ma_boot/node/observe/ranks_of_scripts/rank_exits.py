"""Ends of script ranks as those of processes that ma_boot has started. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ma_boot.node.scripts.script_state import RankEnd
from ma_boot.report.result import HANGUP_CODES, STOP_CODES, WorkerExit

# Nanoseconds between a rank's end and that of its command: causes are ordered by milliseconds.
BEFORE_NS = 2_000_000


def exit_of(end: RankEnd, log_file: str) -> WorkerExit:
    """Returns the end of a script rank; `log_file` is that of its command.

    An unknown exit code is 1, as after an exception, or 137 after an OOM kill.
    """
    code = end.code if end.code is not None else 137 if end.oom is not None else 1
    pid = end.rank.process.pid
    ended_ns = int(end.when * 1e9)
    return WorkerExit(
        label=f"rank {end.rank.number.rank}",
        rank=end.rank.number.rank,
        device=end.rank.number.local_rank,
        pid=pid,
        code=code,
        signal=code - 128 if code > 128 and end.code is not None else None,
        ended_ns=ended_ns,
        seconds=max(0.0, end.when - end.rank.seen),
        stopped=False,
        log_file=end.rank.log_file or log_file,
        output=end.output,
        oom=end.oom,
    )


def with_failed_ranks(
    exits: Sequence[WorkerExit], failures: Sequence[RankEnd], command: WorkerExit | None
) -> tuple[WorkerExit, ...]:
    """Adds the ends of failed ranks to those of the processes, in order of time.

    `command` is the end of the command that has started them. Its exit code is its own word: after a success
    the ranks have code 0, too, but their output, or their own code, shows the failure that the command hides.
    A rank of which the code is unknown has that of the command.
    """
    known = {ended.pid for ended in exits}
    if command is None or command.stopped:
        return tuple(exits)
    added = []
    for end in failures:
        ended = exit_of(end, command.log_file)
        # The end may have been noticed after that of the command, which follows from it.
        ended = ended._replace(ended_ns=min(ended.ended_ns, command.ended_ns - BEFORE_NS))
        if command.code == 0:
            added += _behind_success(end, ended)
        else:
            added.append(ended if end.code is not None else ended._replace(code=command.code))
    new = [ended for ended in added if ended.pid not in known]
    return tuple(sorted([*exits, *new], key=lambda ended: ended.ended_ns))


def _behind_success(end: RankEnd, ended: WorkerExit) -> list[WorkerExit]:
    """Returns the end of a rank whose command has ended with 0; none if nothing of its own shows a failure.

    A rank that was stopped by a signal has probably been stopped by the script, as it ends.
    """
    is_stopped = end.oom is None and end.code in STOP_CODES | HANGUP_CODES
    hidden = 0 if end.code is None or is_stopped else end.code
    if end.rank.log_file is None:
        # The command's own output is looked at anyway.
        ended = ended._replace(output="")
    shows_failure = end.rank.log_file is not None or hidden
    return [ended._replace(code=0, signal=None, hidden=hidden)] if shows_failure else []
