"""The rehearsal of a whole job: the same boot for each simulated node, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ma_boot.desk.rehearsal.job_run import JobRun, NodeRunner
from ma_boot.desk.rehearsal.kept import PAGE, prune, sandbox
from ma_boot.desk.rehearsal.live_view import live_view
from ma_boot.desk.rehearsal.node_processes import LocalProcesses
from ma_boot.desk.rehearsal.node_specs import command_for_form, node_spec, rerooting_note
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob, rank_table
from ma_boot.desk.rehearsal.platform_side import uploading_outputs
from ma_boot.desk.rehearsal.requested import Rehearsal
from ma_boot.desk.rehearsal.result import RehearsalResult
from ma_boot.desk.rehearsal.setup import Setup, new_job, set_up
from ma_boot.desk.rehearsal.summary import (
    cause,
    doubt_in_job,
    events_of,
    job_end_event,
    job_exit_code,
    rehearsal_end,
    shown_path,
    summary_lines,
    totals,
    verdicts_of,
    write_verdicts,
)
from ma_boot.errors import BootError
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import command_text
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.supervise import Limits
from ma_boot.report.result import RunResult
from ma_boot.wording import counted

PAGE_SECONDS = 30.0  # for the page of all nodes; on the platform, a node has less time at its end
NO_CODE = (
    "COMMAND names no script that is here, so no code is copied to the nodes; --code-dir DIR names the job's "
    "code"
)
_KILL_SECONDS = 30.0  # beyond the time that a stopped node needs by its own options


def rehearse(rehearsal: Rehearsal, context: ProcessContext) -> RehearsalResult:
    """Runs the job on simulated nodes; its exit code is that of the first node that failed.

    Where a fault, or what came of it, is not as expected, it is `NOT_AS_EXPECTED`.

    Raises:
        BootError: something was wrong before the nodes were started.
        Stopped: a stop signal arrived before that.
    """
    started = time.monotonic()
    job = new_job(rehearsal, context)
    with sandbox_of(job, rehearsal), set_up(rehearsal, job, context) as setup:
        runner = NodeRunner(
            start_of=lambda counts: replace(job, counts=counts, exact_paths=setup.exact_paths),
            spec_of=lambda start, node: node_spec(setup, start, node, context),
            processes=LocalProcesses(),
        )
        return run_job(setup, runner, context, started)


def run_job(setup: Setup, runner: NodeRunner, context: ProcessContext, started: float) -> RehearsalResult:
    """Runs a job that is set up, and reports it.

    The rehearsal started at `started`, in seconds on the monotonic clock.
    """
    rehearsal, request, job, say = setup.rehearsal, setup.request, setup.job, context.journal.say
    context.journal.open(Path(job.events_file), None)
    context.journal.event(
        "rehearsal", command=command_text(rehearsal.typed), boot_command=command_for_form(setup)
    )
    obs_root = rehearsal.request.transfers.obs_root
    obs = f", with {obs_root} as OBS" if obs_root else ""
    say(f"rehearsing {job.shape} in {shown_path(job.root, context.cwd)}{obs}")
    for note in filter(None, ("" if setup.code else NO_CODE, rerooting_note(setup))):
        say(note)
    timeout = request.transfers.upload_timeout
    # A stopped node gets the time to stop its processes and to upload.
    limits = Limits(request.run.stop_timeout + timeout + _KILL_SECONDS, hurry=signal.SIGTERM)
    with uploading_outputs(
        rehearsal.channels, job, setup.store, seconds=timeout, inbox=context.inbox, warn=context.journal.warn
    ):
        job_run = JobRun(setup, runner, limits, context)
        with live_view(job, context.journal.console):
            finished = job_run.run()
    code = job_exit_code(finished.result, context.inbox.stops)
    verdicts = verdicts_of(setup, finished, code)
    if verdicts:
        say("\n".join(line for verdict in verdicts for line in verdict.lines()))
        try:
            write_verdicts(job.root, verdicts)
        except OSError as error:  # a full disk does not change how the job ended
            context.journal.warn(f"cannot write {error.filename or job.root}: {error.strerror}")
    own_stops = sum(fault.kind == "stop" and fault.node is None for fault in finished.injected.injections())
    by_user = len(context.inbox.stops) > own_stops  # then faults may be missing
    wrong = [f"{problem} ({verdict.fault})" for verdict in verdicts for problem in verdict.wrong]
    deviations = () if by_user else wrong
    result = _finish(rehearsal, job, finished.result, context=context, started=started, wrong=deviations)
    return result._replace(faults=tuple(verdicts))


def sandbox_of(job: SimulatedJob, rehearsal: Rehearsal) -> AbstractContextManager[None]:
    """Creates the directory of a job, marked as running during the block, and removes it if the job does not
    begin."""
    return sandbox(Path(job.root), command_text(rehearsal.typed), Path(job.events_file))


def _finish(
    rehearsal: Rehearsal,
    job: SimulatedJob,
    run: RunResult,
    context: ProcessContext,
    started: float,
    wrong: Sequence[str],
) -> RehearsalResult:
    """Writes the page of the whole job and the summary.

    `wrong` is what was not as expected.
    """
    from ma_boot.report.page.read import write_in_time  # only needed at the end

    journal = context.journal
    code = job_exit_code(run, context.inbox.stops)  # a stop may have arrived meanwhile
    why = cause(job, run, code)
    exit_code, reason = rehearsal_end(code, why, wrong)
    journal.event("job-end", **job_end_event(run, context.inbox.stops, why, exit_code))
    journal.close()
    events = [Path(job.events_file), *(file for node in range(job.nodes) for file in events_of(job, node))]
    made = write_in_time(events, Path(job.root, PAGE), context.inbox, journal.warn, PAGE_SECONDS)
    removed, problems = prune(Path(job.root).parent, rehearsal.options.keep_rehearsals)
    if removed or problems:
        count = counted(removed, "old rehearsal")
        journal.say("\n".join([f"{count} removed (MABOOT_KEEP_REHEARSALS)", *problems]))
    seconds = time.monotonic() - started
    place, total = shown_path(job.root, context.cwd), totals(job, seconds)
    is_doubtful = exit_code == 0 and doubt_in_job(job) is not None
    lines = summary_lines(
        place, total, with_page=made, exit_code=exit_code, reason=reason, is_doubtful=is_doubtful
    )
    journal.say("\n".join(lines))
    return RehearsalResult(job, exit_code, code, cause=str(reason), seconds=seconds, with_page=made)


def plan_rehearsal(rehearsal: Rehearsal, context: ProcessContext) -> list[dict[str, Any]]:
    """The launch plan of every node, as `ma_boot run --plan --json` on that node prints it.

    The sandbox is created for it, with the completed rank table, and removed again.

    Raises:
        BootError: something is wrong, here or on a node.
        Stopped: a stop signal arrived.
    """
    job = new_job(rehearsal, context)
    with sandbox_of(job, rehearsal), set_up(rehearsal, job, context) as setup:
        start = replace(job, exact_paths=setup.exact_paths)
        table = json.dumps(rank_table(start))
        for node in range(job.nodes):
            job.table_file(node).write_text(table, encoding="utf-8")
        specs = [node_spec(setup, start, node, context) for node in range(job.nodes)]
        return [_plan_of_node(spec, job.home(node)) for node, spec in enumerate(specs)]


def _plan_of_node(spec: WorkerSpec, cwd: str) -> dict[str, Any]:
    run = spec.argv.index("run") + 1
    argv = [*spec.argv[:run], "--plan", "--json", *spec.argv[run:]]
    done = subprocess.run(argv, cwd=cwd, env=dict(spec.environ), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        error = BootError(f"{spec.label} has no plan: its ma_boot ended with exit code {done.returncode}")
        error.exit_code = done.returncode
        raise error
    plan: dict[str, Any] = json.loads(done.stdout)["nodes"][0]
    return plan
