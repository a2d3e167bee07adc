"""The rehearsal of a whole job: the same boot for each simulated node, in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ma_boot.errors import BootError, CannotCreate
from ma_boot.job import TABLE_NAME
from ma_boot.launch import WorkerSpec
from ma_boot.local.code import code_directory, code_files, copy_code
from ma_boot.local.late_table import write_late
from ma_boot.local.live import live_view
from ma_boot.local.platform import SimulatedJob, node_environment, rank_table
from ma_boot.local.summary import end_of_job, events_of, summary_lines
from ma_boot.page.in_time import write_in_time
from ma_boot.ports import free_port
from ma_boot.request import BootRequest, as_options
from ma_boot.result import RunResult
from ma_boot.supervise import Limits, supervise
from ma_boot.task import Task
from ma_boot.world import World

PAGE_SECONDS = 30.0  # for the page of all nodes: nobody waits for this machine as a platform does


@dataclass(frozen=True)
class Rehearsal:
    """What to rehearse; paths as the user wrote them, the delay in seconds."""

    request: BootRequest
    nodes: int
    devices_per_node: int
    rank_table_delay: float
    code_dir: Optional[str]
    rehearsal_dir: str


def rehearse(rehearsal: Rehearsal, world: World) -> int:
    """Runs the job on simulated nodes and returns its exit code: that of the node that failed first.

    Raises `BootError` for what is wrong before a node starts.
    """
    started = time.monotonic()
    job = new_job(rehearsal, world)
    return run_nodes(rehearsal, job, _set_up(rehearsal, job, world), rank_table(job), world, started)


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
    world.journal.open(Path(job.events_file), None)
    world.journal.say(
        f"rehearsing {job.name}: {job.nodes} nodes x {job.devices_per_node} devices in {job.root}"
    )
    directories = [job.table_dir(node) for node in range(job.nodes)]
    writer = Task(
        "rank table",
        lambda cancel: write_late(table, directories, rehearsal.rank_table_delay, cancel),
        world.inbox,
    )
    try:
        with live_view(job, world.console):
            run = supervise(specs, world, Limits(_patience(rehearsal.request), hurry=signal.SIGTERM))
    finally:
        writer.cancel()
    code = job_exit_code(run, world.inbox.stops)
    world.journal.event("job-end", exit_code=code, **end_of_job(job, run, world.inbox.stops))
    world.journal.close()
    events = [Path(job.events_file), *(file for node in range(job.nodes) for file in events_of(job, node))]
    made = write_in_time(events, Path(job.page_file), world, PAGE_SECONDS)
    page = job.page_file if made else None
    seconds = time.monotonic() - started
    world.journal.say("\n".join(summary_lines(job, run, code, seconds, rehearsal.request, page)))
    return code


def plan_rehearsal(rehearsal: Rehearsal, world: World) -> List[Dict[str, Any]]:
    """The launch plan of every node, as `ma_boot run --plan --json` on that node prints it.

    The sandbox is made for it, with the table completed, and taken away again.
    """
    job = new_job(rehearsal, world)
    try:
        specs = _set_up(rehearsal, job, world)
        for node in range(job.nodes):
            Path(job.table_dir(node), TABLE_NAME).write_text(json.dumps(rank_table(job)), encoding="utf-8")
        return [_plan_of_node(spec) for spec in specs]
    finally:
        shutil.rmtree(job.root, ignore_errors=True)


def _plan_of_node(spec: WorkerSpec) -> Dict[str, Any]:
    argv = [*spec.argv[:4], "--plan", "--json", *spec.argv[4:]]
    done = subprocess.run(argv, cwd=spec.cwd, env=dict(spec.environ), stdout=subprocess.PIPE, check=False)
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


def _patience(request: BootRequest) -> float:
    """A node that is stopped stops its processes, then uploads; it is not killed before that can be over."""
    return request.stop_timeout + request.upload_timeout + 30


def new_job(rehearsal: Rehearsal, world: World) -> SimulatedJob:
    """A job with a name of its own, and a sandbox that does not exist yet."""
    identity = str(uuid.uuid4())
    root = Path(world.cwd, rehearsal.rehearsal_dir, f"ma-job-{identity[:8]}")
    return SimulatedJob(identity, str(root), rehearsal.nodes, rehearsal.devices_per_node)


def make_sandbox(rehearsal: Rehearsal, job: SimulatedJob, code: Optional[Path], world: World) -> None:
    """Makes every node's directories with the code in them; raises `BootError`."""
    apart = [
        Path(world.cwd, place).resolve()
        for place in (rehearsal.rehearsal_dir, rehearsal.request.obs_root)
        if place
    ]
    files = code_files(code, apart) if code is not None else ()
    for node in range(job.nodes):
        try:
            for directory in job.directories(node).values():
                Path(directory).mkdir(parents=True)
        except OSError as error:
            raise CannotCreate(f"cannot make the sandbox {job.root}: {error.strerror}") from error
        if code is not None:
            copy_code(code, files, Path(job.job_dir(node), code.name))


def node_log(job: SimulatedJob, node: int) -> str:
    """Where everything is kept that a node prints."""
    return str(Path(job.root, "log", f"{job.log_name}-worker-{node}.log"))


def _set_up(rehearsal: Rehearsal, job: SimulatedJob, world: World) -> List[WorkerSpec]:
    """Makes the sandbox; returns what starts `ma_boot` on each node."""
    code, command = code_directory(rehearsal.request.command, rehearsal.code_dir, world.cwd)
    make_sandbox(rehearsal, job, code, world)
    port = rehearsal.request.rendezvous_port or free_port()
    request = dataclasses.replace(rehearsal.request, command=command, rendezvous_port=port)
    return [
        WorkerSpec(
            label=f"node {node}",
            argv=(
                sys.executable,
                "-m",
                "ma_boot",
                "run",
                *as_options(_on_node(request, job, node, code, world.cwd)),
            ),
            cwd=job.home(node),
            environ=node_environment(job, node, code.name if code else "code", world.environ),
            log_file=node_log(job, node),
        )
        for node in range(job.nodes)
    ]


def _on_node(
    request: BootRequest, job: SimulatedJob, node: int, code: Optional[Path], cwd: str
) -> BootRequest:
    """The request as the node gets it: the script in the node's own code, other paths made absolute."""
    first, *rest = request.command
    if code is not None and first.endswith((".py", ".sh")):
        first = str(Path(job.job_dir(node), code.name, first))

    def absolute(path: Optional[str]) -> Optional[str]:
        return None if path is None else str(Path(cwd, path))

    return dataclasses.replace(
        request,
        command=(first, *rest),
        source=tuple(str(Path(cwd, file)) for file in request.source),
        path_mapping=absolute(request.path_mapping),
        obs_root=absolute(request.obs_root),
    )
