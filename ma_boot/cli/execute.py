"""Execution of `ma_boot run`: boots a node, rehearses a job, or prints a plan."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

from ma_boot.errors import ExitCode
from ma_boot.node.boot.boot import boot, plan_only
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import BootRequest
from ma_boot.node.launch.launch_plan import describe_plan
from ma_boot.processes.children import adopt_orphans, forbid_core_files
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.console import Console, has_colours, is_interactive, print_lines
from ma_boot.report.exit_report import Ending, end_event, exit_status, last_lines, report_lines, write_failure
from ma_boot.report.journal import Journal

# Seconds; max. wait for the file system that holds the failure file.
FAILURE_FILE_SECONDS = 5.0


def boot_here(request: BootRequest, environ: Mapping[str, str]) -> int:
    """Boots this node of a job; returns its exit code."""
    with _context(environ) as context:
        adopt_orphans()
        forbid_core_files()
        ending = boot(request, context)
        _report(ending, context)
        # A stop signal may have come during the report: then the exit code may be another one.
        if context.inbox.stops and ending.stopped_by is None:
            before, ending = exit_status(ending), ending._replace(stopped_by=context.inbox.stops[0])
            if exit_status(ending) != before:
                _report(ending, context, again=True)
        with context.journal.best_effort("the events may end early"):
            context.journal.close()
    # Or since then.
    if context.inbox.stops and ending.stopped_by is None:
        ending = ending._replace(stopped_by=context.inbox.stops[0])
    return exit_status(ending).code


def _report(ending: Ending, context: ProcessContext, again: bool = False) -> None:
    """Reports the end of the node as an event, a file, a page and on the console; `again` only the exit code.

    Raises nothing.
    """
    journal, page = context.journal, None
    with journal.best_effort("the events have no end"):
        journal.event("end", **end_event(ending))
    with journal.best_effort("no failure file was written"):
        written = Task("failure file", lambda cancel: write_failure(ending), context.inbox)
        written.wait(lambda: None, time.monotonic() + FAILURE_FILE_SECONDS)
    # The page reads the logs.
    journal.logs.flush()
    with journal.best_effort("no page was made"):
        page = _page_here(ending, context)
    lines = [f"exit code {exit_status(ending).code}"]
    with journal.best_effort("no report was made"):
        lines = last_lines(ending) if again else report_lines(ending, page)
    for line in lines:
        journal.say(line)


def _page_here(ending: Ending, context: ProcessContext) -> str | None:
    """Writes the node's page; returns None if that fails, which has no effect on the exit code."""
    if ending.job is None:
        return None
    from ma_boot.report.page.read import write_in_time  # only needed at the end

    events, page = Path(ending.job.events_file), Path(ending.job.page_file)
    made = write_in_time([events], page, context.inbox, context.journal.warn)
    return str(page) if made else None


# What a rehearsal needs is imported where it is used: a job on the platform needs none of it.


def print_plan(request: BootRequest, options: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Prints what would be started: here, or on each node of a rehearsal."""
    from ma_boot.node.launch.plan_text import format_plans  # a boot does not need it

    with _context(environ, Console(2)) as context:
        if options["local"]:
            from ma_boot.desk.rehearsal.rehearse import plan_rehearsal
            from ma_boot.desk.rehearsal.requested import rehearsal_of

            plans = plan_rehearsal(rehearsal_of(request, options), context)
        else:
            plans = [describe_plan(plan_only(request, context), environ)]
    as_json = json.dumps({"nodes": plans}, indent=2, ensure_ascii=False)
    print_lines(as_json if options["as_json"] else format_plans(plans))
    return ExitCode.SUCCESS


def rehearse_job(
    request: BootRequest, options: Mapping[str, Any], environ: Mapping[str, str], typed: Sequence[str]
) -> int:
    """Rehearses a job in processes or containers; returns the exit code.

    `typed` are the words of the command line, for the page. With `as_json`, standard output has the result
    alone.
    """
    from ma_boot.desk.rehearsal.brief import BriefLines, QuietLines
    from ma_boot.desk.rehearsal.requested import containers_of, rehearsal_of

    rehearsal = rehearsal_of(request, options, typed)
    shown = bytes if options["verbose"] else QuietLines() if options["quiet"] else BriefLines()
    descriptor = 2 if options["as_json"] else 1
    with _context(environ, _console(environ, shown, descriptor)) as context:
        adopt_orphans()
        if options["runner"] == "docker":
            from ma_boot.desk.rehearsal.in_containers import rehearse_in_containers

            result = rehearse_in_containers(rehearsal, containers_of(options), context)
        else:
            from ma_boot.desk.rehearsal.rehearse import rehearse

            result = rehearse(rehearsal, context)
    if options["as_json"]:
        print_lines(json.dumps(result.document(), indent=2, ensure_ascii=False))
    return result.exit_code


def _console(
    environ: Mapping[str, str], shown: Callable[[bytes], bytes] = bytes, descriptor: int = 1
) -> Console:
    return Console(
        descriptor,
        interactive=is_interactive(environ, descriptor),
        colours=has_colours(environ, descriptor),
        shown=shown,
    )


@contextmanager
def _context(environ: Mapping[str, str], console: Console | None = None) -> Iterator[ProcessContext]:
    """Yields the process context; its console is standard output unless another one is given."""
    output = console or _console(environ)
    with SignalInbox() as inbox, output as console:
        yield ProcessContext(environ, os.uname().nodename, os.getcwd(), inbox, Journal(console))
