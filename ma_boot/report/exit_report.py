"""End of the job on this node and its cause: one exit code, one screen and one file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Callable, NamedTuple

from ma_boot.errors import BootError, ExitCode, InternalError, OutputLost, Stopped, listed, signal_name
from ma_boot.platform.modelarts.job import ChannelContent, JobEnvironment
from ma_boot.redact import masked, without_secrets
from ma_boot.report.cause import Cause, coded_lines_of, lost_its_peer, plog_of, words_of
from ma_boot.report.doubt import Doubt, doubt_of
from ma_boot.report.explain import (
    explanation,
    failed_mpi_rank,
    output_of_failed_rank,
    some_mpi_rank_failed,
)
from ma_boot.report.failure import find_failure, last_words
from ma_boot.report.files import write_atomically
from ma_boot.report.hints import hints_for
from ma_boot.report.result import ROLES, ExitStatus, RunResult, WorkerExit
from ma_boot.wording import (
    Message,
    ProgressLine,
    WarningLine,
    coded,
    counted,
    in_lines,
    lines_of,
    list_first,
    size,
)
from path_mapping.errors import printable

# Programs search for this line, so no mark of its kind precedes it.
EXIT_CODE = "exit code {}: "
DOUBTFUL_EXIT_CODE = "exit code {}, but "
# Other processes with a line of their own, so that the report fits on a screen.
MOST_OTHERS = 8
# Lines.
MOST_OF_SUMMARY = 15
# Characters.
LONGEST_LINE = 300
# Lines of CANN's log in the failure file.
MOST_PLOG_LINES = 50
# Characters; platforms that show the summary of a failure cut it there.
SUMMARY_CHARACTERS = 1024


class Ending(NamedTuple):
    """All facts that decide the exit code of the node; a part is None if it did not happen.

    `stopped_by` is the first stop signal, `error` what ended the boot before or at the launch, `run` how the
    processes ended, `lost` which outputs were not uploaded or are empty, and `form` what the job form's
    inputs and outputs hold. `cause` is the failure that is the cause: of the whole job if the nodes have
    `agreed` on it, else of this node.
    """

    job: JobEnvironment | None
    stopped_by: int | None
    error: BootError | None
    run: RunResult | None
    lost: OutputLost | None
    form: tuple[ChannelContent, ...] = ()
    cause: Cause | None = None
    agreed: bool = False

    @classmethod
    def of(
        cls,
        job: JobEnvironment | None,
        stops: Sequence[int],
        error: Exception | None,
        run: RunResult | None,
        lost: OutputLost | None,
        form: Sequence[ChannelContent] = (),
    ) -> Ending:
        """Builds the ending from what the boot has gathered; `stops` are all stop signals in order of
        arrival.
        """
        if isinstance(error, (BootError, Stopped)) or error is None:
            ours = error if isinstance(error, BootError) else run.not_started if run else None
        else:
            ours = InternalError.of(error)
        return cls(
            job=job,
            stopped_by=stops[0] if stops else None,
            error=ours,
            run=run,
            lost=lost,
            form=tuple(form),
        )


def exit_status(ending: Ending) -> ExitStatus:
    """Returns the exit status of the first of the `RULES` that applies.

    Success is one of the rules, with a condition of its own: an ending without a rule is a failure.
    """
    known = (rule(ending) for rule in RULES)
    return next((status for status in known if status is not None), _unknown(ending))


def _by_signal(ending: Ending) -> ExitStatus | None:
    """Applies to a stop signal, unless the job was given up before it came.

    In that case the platform stops this node because a faster one has ended; the code is that of their common
    cause.
    """
    if ending.stopped_by is None or (ending.run is not None and ending.run.stopped_for is not None):
        return None
    node = _node_that_failed(ending)
    text: str = Message.of("stopped by {}", signal_name(ending.stopped_by))
    if node is not None:
        text = Message.of("stopped because node {} failed", node)
    failure = ending.run.first_failure if ending.run else None
    if failure:
        text = Message.of("{}; before that, {} {}", text, failure.label, failure.how())
    return ExitStatus(128 + ending.stopped_by, "signal", text)


def _by_error(ending: Ending) -> ExitStatus | None:
    error = ending.error
    return None if error is None else ExitStatus(int(error.exit_code), "ma_boot", str(error))


def _by_failure(ending: Ending) -> ExitStatus | None:
    """Applies to the first failed process; if it only lost a peer, with the exit code of the root cause."""
    run, cause = ending.run, ending.cause
    failure = run.first_failure if run else None
    if run is None or failure is None:
        return None
    if cause is not None and cause.code and not _is_of(ending, cause, failure) and lost_its_peer(failure):
        who, how, after = failure.label, failure.how(), f"{failure.seconds:.1f}"
        lost = Message.of("{} {} after {} s, as it had lost another rank", who, how, after)
        return ExitStatus(cause.code, "training", Message.of("{} (exit code of the cause)", lost))
    return ExitStatus(failure.code, "training", listed(_described(failure), run.advice))


def _is_of(ending: Ending, cause: Cause, ended: WorkerExit) -> bool:
    """Returns whether the cause is the end of this process."""
    return _is_here(ending, cause) and cause.rank == ended.rank


def _is_here(ending: Ending, cause: Cause) -> bool:
    return ending.job is None or cause.node == ending.job.node_rank


def _by_hang(ending: Ending) -> ExitStatus | None:
    """Applies to hung processes: 124, as from `timeout`."""
    run = ending.run
    if run is None or not run.hung:
        return None
    text = Message.of("{} hung, and ma_boot stopped the run (--hang-action stop)", run.hung)
    suspected = run.suspect and Message.of("suspected: {}: {}", run.suspect, run.suspect.in_words())
    return ExitStatus(int(ExitCode.HUNG), "ma_boot", in_lines([text, *filter(None, [suspected])]))


def _by_cause(ending: Ending) -> ExitStatus | None:
    """Applies to processes that were stopped because of a failure elsewhere."""
    run, cause = ending.run, ending.cause
    if run is None or run.succeeded:
        return None
    why = run.stopped_for
    if cause is not None and (cause.rank is not None or not _is_here(ending, cause)):
        why = ExitStatus(cause.code, "training", str(cause))
    if why is None:
        return None
    return ExitStatus(why.code or 1, "training", Message.of("stopped because {}", why.cause))


def _by_survivors(ending: Ending) -> ExitStatus | None:
    left = ending.run.left if ending.run else ()
    text = Message.of("SIGKILL did not end {}", ", ".join(left))
    return ExitStatus(int(ExitCode.HUNG), "ma_boot", text) if left else None


def _by_lost_output(ending: Ending) -> ExitStatus | None:
    run, lost = ending.run, ending.lost
    if run is None or not run.succeeded or lost is None:
        return None
    return ExitStatus(int(lost.exit_code), "output", str(lost))


def _success(ending: Ending) -> ExitStatus | None:
    """Applies to a run that succeeded; the code stays 0 if that is doubtful, as it is the command's own."""
    if ending.run is None or not ending.run.succeeded:
        return None
    doubt = doubt_about(ending)
    return ExitStatus(int(ExitCode.SUCCESS), None, "success" if doubt is None else str(doubt))


def doubt_about(ending: Ending) -> Doubt | None:
    """Returns the doubt about a success; None if there is none, or if the run has failed."""
    return doubt_of(ending.run.exits) if ending.run is not None and ending.run.succeeded else None


RULES: tuple[Callable[[Ending], ExitStatus | None], ...] = (
    _by_signal,
    _by_error,
    _by_failure,
    _by_hang,
    _by_cause,
    _by_survivors,
    _by_lost_output,
    _success,
)


def _unknown(ending: Ending) -> ExitStatus:
    """Returns the status of an ending without a rule."""
    if ending.run is None:
        text = Message("no process was run, and no reason is known")
        return ExitStatus(int(ExitCode.INTERNAL), "ma_boot", text)
    text = Message("not every process ended with 0 by itself, and no other node has told a cause")
    return ExitStatus(1, "training", text)


def _node_that_failed(ending: Ending) -> int | None:
    """Returns the peer with the root cause that the nodes have agreed on; None if it is not a peer's."""
    job, cause = ending.job, ending.cause
    if job is None or cause is None or not ending.agreed or cause.node == job.node_rank:
        return None
    return cause.node


def _described(failure: WorkerExit) -> str:
    """Describes the first failure, with what its exit code means and its own words."""
    more = filter(None, [explanation(failure), words_of(failure)])
    return reduce(partial(Message.of, "{}: {}"), more, _how_it_ended(failure))


def _how_it_ended(failure: WorkerExit) -> str:
    rank, who = failed_mpi_rank(failure.output), failure.label
    if rank is not None:
        who = Message.of("rank {} under {}", rank, who)
    elif some_mpi_rank_failed(failure.output):
        who = Message.of("a rank under {}", who)
    after = f"{failure.seconds:.1f}"
    return Message.of("{} {} after {} s (exit code of the training process)", who, failure.how(), after)


def _shortened(line: str) -> str:
    """Cuts a line after masking: a secret that is cut would not be recognized any more."""
    return printable(without_secrets(line))[:LONGEST_LINE]


def end_event(ending: Ending) -> dict[str, Any]:
    """Returns the fields of a node's last event."""
    failure = ending.run.first_failure if ending.run else None
    code, by, cause = exit_status(ending)
    doubt = doubt_about(ending)
    return {
        "exit_code": code,
        "by": by,
        "cause": cause,
        "label": failure.label if failure else None,
        "words": words_of(failure) if failure else "",
        "signal": ending.stopped_by,
        "doubt": doubt.fields() if doubt else None,
    }


def report_lines(ending: Ending, page: str | None = None) -> list[str]:
    """Returns the end of a node's output: the failed process and the others, then a summary.

    The summary has at most 15 lines: places, the exit code, and the cause in the last line. Only the problems
    that an error lists follow it. `page` is the path of the HTML page, None if there is none.
    """
    _, by, cause = exit_status(ending)
    details = lines_of(cause)[1:]
    run, lost = ending.run, lines_of(str(ending.lost)) if ending.lost is not None and by != "output" else []
    of_processes = []
    if run is not None:
        failed = _process_of(ending, run)
        of_processes = _failure_lines(ending, failed) if failed is not None else []
        of_processes += [*_doubt_lines(ending, by), *_lines_of_others(run, failed)]
    # The details of a failed process are its remedies: they go above the summary, which ends with the cause.
    if by == "training":
        of_processes, details = [*of_processes, *details], []
    places = [ProgressLine(f"logs: {ending.job.log_dir}")] if ending.job is not None else []
    places += [ProgressLine(f"page: {page}")] if page is not None else []
    facts: list[str] = [*_lost_of_logs(run), *map(_channel_line, ending.form)]
    end, *why = last_lines(ending)
    room = MOST_OF_SUMMARY - len(places) - len(why) - 1
    if len(facts) > room:
        facts = [*facts[: room - 1], f"and {len(facts) - room + 1} more inputs and outputs"]
    return [*of_processes, *lost, *facts, *places, end, *details, *why]


def last_lines(ending: Ending) -> list[str]:
    """Returns the exit code with its headline, and the cause: one of them has the failure's words.

    The headline is that of a rank of this node with its place and remedy, unless the nodes have agreed on a
    cause, or a script started the rank.
    """
    code, by, cause = exit_status(ending)
    headline = lines_of(cause)[0]
    is_doubtful = code == ExitCode.SUCCESS and doubt_about(ending) is not None
    exit_code = (DOUBTFUL_EXIT_CODE if is_doubtful else EXIT_CODE).format(code)
    failure = ending.run.first_failure if ending.run else None
    named = _cause_line(ending, failure)
    if by == "training" and ending.cause is not None:
        headline = _beside_cause(ending, ending.cause, failure, headline=headline, is_named=bool(named))
    return [Message.of("{}{}", exit_code, headline), *named]


def _beside_cause(
    ending: Ending, cause: Cause, failure: WorkerExit | None, *, headline: str, is_named: bool
) -> str:
    """Returns the headline without what the line of the cause repeats, or with the cause if there is none."""
    if headline == Message.of("stopped because {}", str(cause)):
        return Message.of("stopped because node {} failed", cause.node)
    if failure is None or not _is_here(ending, cause):
        return headline
    if not is_named:
        return cause.with_place_and_hint(headline)
    return _how_it_ended(failure) if headline.endswith(cause.words) else headline


def _cause_line(ending: Ending, failure: WorkerExit | None) -> list[str]:
    """Returns the last line, the cause; empty where the line of the exit code has it."""
    cause = ending.cause
    if cause is None:
        return []
    if ending.agreed:
        return [Message.of("{}: {}", "the job's cause", str(cause))]
    if failure is not None and failure.rank == cause.rank:
        return []
    whose = f"rank {cause.rank}: " if cause.rank is not None else ""
    alone = not (cause.place or cause.hint) and failure is None
    return [] if alone else [Message.of("{}: {}{}", "the cause on this node", whose, cause.in_words)]


def _lost_of_logs(run: RunResult | None) -> list[str]:
    """Returns a warning about bytes that are missing in log files."""
    cut = [ended for ended in (run.exits if run else ()) if ended.log_lost]
    if len(cut) > 1:
        count = sum(ended.log_lost for ended in cut)
        return [WarningLine(f"{count} bytes are missing in the log files of {len(cut)} processes")]
    return [
        WarningLine(f"{ended.label}: {ended.log_lost} bytes are missing in {ended.log_file}") for ended in cut
    ]


def _channel_line(content: ChannelContent) -> str:
    """Formats `output train_url: 2 files, 3.1 MB in /dir, for obs://bucket/path`."""
    channel = content.channel
    number = f"{counted(content.files, 'file')}, {size(content.bytes)}" if content.files else "no files"
    more = "" if content.complete else "more than "
    way = "from" if channel.kind == "inputs" else "for"
    ends = f"in {channel.local_dir}, {way} {channel.url}"
    return ProgressLine(f"{channel.kind[:-1]} {channel.name}: {more}{number} {ends}")


def _failure_lines(ending: Ending, failure: WorkerExit) -> list[str]:
    """Returns the first failed process and the end of its output."""
    # The stacks have told why it hung, unlike old lines of its log: MindSpore's early attempts to connect.
    is_explained = failure.stopped and ending.run is not None and ending.run.suspect is not None
    return [f"the cause: {_process_line(ending, failure)}", *_output_lines(failure, hints=not is_explained)]


def _doubt_lines(ending: Ending, by: str | None) -> list[str]:
    """Returns the process whose success is doubtful, and the end of its output.

    If the node ends for lost outputs, the failure of that process is probably why: its line is a warning.
    """
    process, doubt = _process_in_doubt(ending), doubt_about(ending)
    if process is None or doubt is None:
        return []
    lines = [f"in doubt: {_process_line(ending, process)}", *_output_lines(process)]
    return lines if by is None else [*lines, WarningLine(str(doubt))]


def _process_in_doubt(ending: Ending) -> WorkerExit | None:
    doubt = doubt_about(ending)
    exits = ending.run.exits if ending.run is not None and doubt is not None else ()
    return next((ended for ended in exits if doubt is not None and ended.label == doubt.label), None)


def _process_line(ending: Ending, ended: WorkerExit) -> str:
    host = f", host {ending.job.host}" if ending.job else ""
    device = "" if ended.device is None else f", device {ended.device}"
    return f"{ended.label}{device}{host}, pid {ended.pid}; its log: {ended.log_file}"


def _output_lines(failure: WorkerExit, hints: bool = True) -> list[str]:
    """Returns the last words of a process, and hints for them if they are wanted."""
    output = output_of_failed_rank(failure.output)
    plog = plog_of(failure)
    lines = [f"  | {_shortened(line)}" for line in [*last_words(output), *coded_lines_of(plog)]]
    wanted = hints_for(output, plog) if hints else ()
    return [*lines, *(Message.of("{}: {}", "hint", hint) for hint in wanted)]


def _process_of(ending: Ending, run: RunResult) -> WorkerExit | None:
    """Returns the process with the root cause if it ran here, else the first failed one."""
    cause, job = ending.cause, ending.job
    if cause is None or (job is not None and cause.node != job.node_rank):
        return run.first_failure
    return run.failure_of(cause.rank) or run.first_failure


def _lines_of_others(run: RunResult, failed: WorkerExit | None) -> list[str]:
    """Returns a line for each other process, those with an exception in their output first.

    If no process failed on its own, only those with an exception are listed.
    """
    ends = [(ended, _exception(ended)) for ended in run.exits if ended is not failed]
    words = _common_exception(failed, _exception(failed)) if failed is not None else None
    same = [
        ended
        for ended, exception in ends
        if words is not None and _common_exception(ended, exception) == words
    ]
    ends = [(ended, exception) for ended, exception in ends if ended not in same]
    shown = sorted((end for end in ends if run.first_failure or end[1]), key=lambda end: end[1] is None)
    lines = [_same_line(same)] if same else []
    lines += [
        f"{ended.label} {ended.how()} after {ended.seconds:.1f} s: "
        + ("ended first" if ended is run.first_failure else ROLES[run.role(ended)])
        + (f"; its last exception: {_shortened(exception)}" if exception else "")
        for ended, exception in shown[:MOST_OTHERS]
    ]
    if len(shown) > MOST_OTHERS:
        lines.append(f"and {len(shown) - MOST_OTHERS} others, all of them in the failure file")
    return lines


def _same_line(same: Sequence[WorkerExit]) -> str:
    """Formats `3 more ranks: the same: rank 0, rank 1, rank 3` for ranks with the exception of the cause."""
    number = counted(len(same), "more rank", "more ranks")
    return Message.of("{}: the same: {}", number, list_first([ended.label for ended in same], MOST_OTHERS))


def _exception(ended: WorkerExit) -> str | None:
    """Returns the last exception in the output of a process that failed."""
    failure = find_failure(output_of_failed_rank(ended.output), ended.stopped) if ended.code else None
    return failure.words if failure is not None else None


def _common_exception(ended: WorkerExit, exception: str | None) -> str | None:
    """Returns an exception in the form that is equal for all ranks."""
    if exception is None:
        return None
    from ma_boot.report.same_failure import common_form  # most jobs have no exception

    return common_form(exception, (ended.rank, ended.device))


def failure_document(ending: Ending) -> dict[str, Any]:
    """Returns the failure or the doubt as JSON for programs; `summary` has at most 1,024 characters."""
    run, doubt = ending.run, doubt_about(ending)
    failure = run.first_failure if run else None
    told = failure or _process_in_doubt(ending)
    output, plog = (output_of_failed_rank(told.output), plog_of(told)) if told else ("", "")
    code, _, cause = exit_status(ending)
    return {
        "exit_code": code,
        "summary": without_secrets(cause)[:SUMMARY_CHARACTERS],
        "host": ending.job.host if ending.job else None,
        "first_failure": _as_json(run, failure) if run and failure else None,
        "last_words": last_words(output),
        "plog": plog.splitlines()[-MOST_PLOG_LINES:],
        "advice": hints_for(output, plog),
        "processes": [_as_json(run, ended) for ended in run.exits] if run else [],
        "output_lost": str(ending.lost) if ending.lost else None,
        "cause": ending.cause.fields() if ending.cause else None,
        "job_cause": str(ending.cause) if ending.cause and ending.agreed else None,
        "doubt": doubt.fields() if doubt else None,
    }


def _as_json(run: RunResult, ended: WorkerExit) -> dict[str, Any]:
    left_out = {"output", "plog"} if ended.hidden else {"output", "plog", "hidden"}
    values = {name: value for name, value in ended._asdict().items() if name not in left_out}
    return {**values, "part": ROLES[run.role(ended)], "exception": _exception(ended)}


def write_failure(ending: Ending) -> None:
    """Writes `<job>-node-<i>-failure.json` to the log directory, without secrets, after a failure or a doubt.

    A file that the training wrote there (`MABOOT_FAILURE_FILE`) is kept, and ours put beside it. Errors are
    ignored: the report on the screen has everything.
    """
    has_succeeded = exit_status(ending).code == ExitCode.SUCCESS and doubt_about(ending) is None
    if ending.job is None or has_succeeded:
        return
    path = Path(ending.job.failure_file)
    try:
        if path.exists():  # raises where the directory cannot be entered
            path = path.with_name(path.stem + "-ma_boot.json")
        document = coded(masked(failure_document(ending)))
        write_atomically(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except Exception:  # how the job ended is what counts
        return
