"""The rehearsal of a whole job: the same boot for each simulated node, in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import BootError, ConfigError, UsageError
from ma_boot.launch import WorkerSpec
from ma_boot.modelarts import TABLE_NAME, free_port, instance_name
from ma_boot.node import CANCEL_SECONDS, BootRequest, World
from ma_boot.processes import Task
from ma_boot.rehearsal.course import Course
from ma_boot.rehearsal.live_view import live_view
from ma_boot.rehearsal.node_specs import (
    Rehearsal,
    Setting,
    elsewhere,
    fetch_inputs,
    make_nodes,
    node_log,
    node_spec,
)
from ma_boot.rehearsal.platform import starts
from ma_boot.rehearsal.platform.code_directory import code_directory, code_files
from ma_boot.rehearsal.platform.job_form import upload_outputs
from ma_boot.rehearsal.platform.rerooted_mapping import said
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.rehearsal.platform.table_writer import write_late
from ma_boot.rehearsal.platform.table_writes import writes
from ma_boot.rehearsal.sandbox.enter import check_is_here
from ma_boot.rehearsal.served_obs import served
from ma_boot.rehearsal.summary import cause, end_of_job, events_of, summary_lines
from ma_boot.rehearsal.verdicts import verdicts_of, write_verdicts
from ma_boot.reporting import RunResult
from ma_boot.supervisor import Limits, supervise
from path_mapping.errors import CredentialsMissing
from path_mapping.stores import Store, open_store

__all__ = ["Rehearsal", "make_sandbox", "new_job", "node_log", "plan_rehearsal", "rehearse", "run_nodes"]
PAGE_SECONDS = 30.0  # for the page of all nodes: nobody waits for this machine as a platform does


def rehearse(rehearsal: Rehearsal, world: World) -> int:
    """Runs the job on simulated nodes and returns its exit code: that of the node that failed first.

    Raises `BootError` for what is wrong before a node starts.
    """
    started = time.monotonic()
    check(rehearsal, world.environ)
    with contextlib.ExitStack() as stack:
        setting = _set_up(rehearsal, world, stack)
        job = setting.job
        _begin(job, world)
        if elsewhere(setting):
            world.journal.say(said(elsewhere(setting)))
        stack.enter_context(_uploading(setting, world))
        course = Course(setting, _limits(rehearsal.request), world)
        with live_view(job, world.journal.console):
            run = course.run()
    code = job_exit_code(run, world.inbox.stops)
    verdicts = verdicts_of(setting, course, code, cause(job, run, code))
    if verdicts:
        world.journal.say("\n".join(line for verdict in verdicts for line in verdict.lines()))
        try:
            write_verdicts(job.root, verdicts)
        except OSError as error:  # a full disk has no say in how the job ended
            world.journal.say(f"cannot write {error.filename or job.root}: {error.strerror}")
    return _end(rehearsal, job, run, world, started)


def _begin(job: SimulatedJob, world: World) -> None:
    """The rehearsal's own events begin, and its first line is said."""
    world.journal.open(Path(job.events_file), None)
    world.journal.say(
        f"rehearsing {job.name}: {job.nodes} nodes x {job.devices_per_node} devices in {job.root}"
    )


def _end(rehearsal: Rehearsal, job: SimulatedJob, run: RunResult, world: World, started: float) -> int:
    """Leaves the page of the whole job, and sums up; returns the job's exit code."""
    from ma_boot.reporting.page import write_in_time  # only needed at the end

    code = job_exit_code(run, world.inbox.stops)
    world.journal.event("job-end", exit_code=code, **end_of_job(job, run, world.inbox.stops))
    world.journal.close()
    events = [Path(job.events_file), *(file for node in range(job.nodes) for file in events_of(job, node))]
    made = write_in_time(
        events, Path(job.page_file), world.environ, world.inbox, world.journal.say, PAGE_SECONDS
    )
    page = job.page_file if made else None
    seconds = time.monotonic() - started
    world.journal.say(
        "\n".join(summary_lines(job, run, code, seconds, rehearsal.request.transfers.obs_root, page))
    )
    return code


def run_nodes(
    rehearsal: Rehearsal,
    job: SimulatedJob,
    specs: Sequence[WorkerSpec],
    table: Mapping[str, Any],
    world: World,
    started: float,
) -> int:
    """Starts what is a node each, writes the rank table late, and sums up; returns the job's exit code.

    `started` is the monotonic time at which the rehearsal began.
    """
    _begin(job, world)
    container = instance_name(world.environ)
    planned = writes(table, range(job.nodes), rehearsal.rank_table_delay)
    writer = Task(
        "rank table",
        lambda cancel: write_late(planned, job.table_dir, cancel, lambda write: None),
        world.inbox,
    )
    try:
        with live_view(job, world.journal.console):
            run = supervise(
                specs, _limits(rehearsal.request), world.inbox, world.journal, world.environ, container
            )
    finally:
        writer.cancel()
    return _end(rehearsal, job, run, world, started)


def plan_rehearsal(rehearsal: Rehearsal, world: World) -> List[Dict[str, Any]]:
    """The launch plan of every node, as `ma_boot run --plan --json` on that node prints it.

    The sandbox is made for it, with the table completed, and taken away again.
    """
    check(rehearsal, world.environ)
    with contextlib.ExitStack() as stack:
        setting = _set_up(rehearsal, world, stack)
        job = setting.job
        stack.callback(shutil.rmtree, job.root, ignore_errors=True)
        seen = starts.seen(job, starts.first_start(job.nodes), setting.exact)
        for node in range(job.nodes):
            text = json.dumps(starts.rank_table(seen))
            Path(job.table_dir(node), TABLE_NAME).write_text(text, encoding="utf-8")
        return [
            _plan_of_node(node_spec(setting, seen, node, world), job.home(node)) for node in range(job.nodes)
        ]


def _plan_of_node(spec: WorkerSpec, cwd: str) -> Dict[str, Any]:
    run = spec.argv.index("run") + 1
    argv = [*spec.argv[:run], "--plan", "--json", *spec.argv[run:]]
    done = subprocess.run(argv, cwd=cwd, env=dict(spec.environ), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        error = BootError(f"{spec.label} has no plan: ma_boot ended there with exit code {done.returncode}")
        error.exit_code = done.returncode
        raise error
    plan: Dict[str, Any] = json.loads(done.stdout)["nodes"][0]
    return plan


def job_exit_code(run: RunResult, stops: Sequence[int]) -> int:
    """The job's exit code out of its nodes'; a node that was stopped since another failed does not count."""
    if stops:
        return 128 + stops[0]
    if run.not_started is not None:
        return int(run.not_started.exit_code)
    return run.first_failure.code if run.first_failure else 0


def _limits(request: BootRequest) -> Limits:
    """A node that is stopped stops its processes, then uploads; it is not killed before that can be over."""
    return Limits(request.run.stop_timeout + request.transfers.upload_timeout + 30, hurry=signal.SIGTERM)


def new_job(rehearsal: Rehearsal, world: World) -> SimulatedJob:
    """A job with a name of its own, and a sandbox that does not exist yet."""
    identity = str(uuid.uuid4())
    root = Path(world.cwd, rehearsal.rehearsal_dir, f"ma-job-{identity[:8]}")
    return SimulatedJob(identity, str(root), rehearsal.nodes, rehearsal.devices_per_node)


def make_sandbox(
    rehearsal: Rehearsal, job: SimulatedJob, code: Optional[Path], world: World
) -> Tuple[Path, ...]:
    """Makes every node's directories with the code in them, and returns its files; raises `BootError`."""
    apart = [
        Path(world.cwd, place).resolve()
        for place in (rehearsal.rehearsal_dir, rehearsal.request.transfers.obs_root)
        if place
    ]
    files = code_files(code, apart) if code is not None else ()
    make_nodes(job, range(job.nodes), code, files, world.inbox)
    return files


def check(rehearsal: Rehearsal, environ: Mapping[str, str]) -> None:
    """Raises `ConfigError` where bubblewrap is needed and missing, `UsageError` for faults of ranks that
    ma_boot does not start."""
    launch = rehearsal.request.launch
    of_ranks = [f"--fault '{fault}'" for fault in rehearsal.faults if fault.stage == "rank"]
    if of_ranks and not rehearsal.starts_ranks:
        raise UsageError(
            f"{', '.join(of_ranks)}: expected ranks that ma_boot starts, found "
            f"{'--per-node' if launch.per_node else '--rendezvous mpi'}, where one process of a node starts "
            "them: only faults of nodes, of the rank table, of OBS and of disks can be made"
        )
    if rehearsal.sandbox is not None:
        check_is_here(environ, "--sandbox bwrap")
    if any(fault.kind == "disk-full" for fault in rehearsal.faults):
        check_is_here(environ, "--fault disk-full")


def _set_up(rehearsal: Rehearsal, world: World, stack: contextlib.ExitStack) -> Setting:
    """Makes the sandbox with all that the nodes find in it; OBS is served until the stack is left."""
    code, command = code_directory(rehearsal.request.command, rehearsal.code_dir, world.cwd)
    job = new_job(rehearsal, world)
    files = make_sandbox(rehearsal, job, code, world)
    launch, transfers = rehearsal.request.launch, rehearsal.request.transfers
    mapping = transfers.path_mapping
    request = dataclasses.replace(
        rehearsal.request,
        command=command,
        launch=dataclasses.replace(launch, rendezvous_port=launch.rendezvous_port or free_port()),
        transfers=dataclasses.replace(
            transfers, path_mapping=str(Path(world.cwd, mapping)) if mapping else None
        ),
    )
    root = Path(world.cwd, transfers.obs_root) if transfers.obs_root else None
    obs = None
    if rehearsal.obs_server and root is not None:
        obs = stack.enter_context(served(root, [f for f in rehearsal.faults if f.stage == "obs"]))
    store = _store_of_form(world.environ, root) if rehearsal.channels else None
    setting = Setting(rehearsal, request, job, code, files, store, obs)
    fetch_inputs(setting, range(job.nodes), world.inbox)
    return setting


def _store_of_form(environ: Mapping[str, str], root: Optional[Path]) -> Store:
    try:
        return open_store(environ, root)
    except CredentialsMissing as error:
        raise ConfigError(f"--input and --output: {error}; or take a directory for it: --obs-root") from error


@contextlib.contextmanager
def _uploading(setting: Setting, world: World) -> Iterator[None]:
    """The platform's own upload of the job form's outputs, while the block runs and once after it."""
    channels, store = setting.rehearsal.channels, setting.store
    if store is None or all(channel.is_input for channel in channels):
        yield
        return
    say, give_up = world.journal.say, threading.Event()
    task = Task(
        "outputs of the job form",
        lambda cancel: upload_outputs(channels, setting.job, store, cancel, give_up, say),
        world.inbox,
    )
    try:
        yield
    finally:
        task.cancel()
        heard = len(world.inbox.stops)
        seconds = setting.request.transfers.upload_timeout
        task.wait(lambda: _give_up_at(world.inbox.stops[heard:], give_up), time.monotonic() + seconds)
        give_up.set()
        task.wait(lambda: None, time.monotonic() + CANCEL_SECONDS)


def _give_up_at(stops: Sequence[int], give_up: threading.Event) -> None:
    """A signal more ends the last upload too."""
    if stops:
        give_up.set()
