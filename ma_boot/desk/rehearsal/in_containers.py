"""The rehearsal of a whole job in containers of its own image: the same boot, one container per node."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

from ma_boot.desk.image.container_engine import engine
from ma_boot.desk.rehearsal.containers.engine_calls import check_runs_here, create_containers, removing
from ma_boot.desk.rehearsal.job_run import NodeRunner
from ma_boot.desk.rehearsal.platform.code_directory import code_directory, command_in
from ma_boot.desk.rehearsal.platform.simulated_job import (
    CODE_DIRECTORY,
    SimulatedJob,
    channel_arguments,
    channel_variables,
)
from ma_boot.desk.rehearsal.rehearse import run_job, sandbox_of
from ma_boot.desk.rehearsal.requested import Rehearsal
from ma_boot.desk.rehearsal.result import RehearsalResult
from ma_boot.desk.rehearsal.setup import (
    Setup,
    check_nodes,
    files_of,
    new_job,
    of_simulated_table,
    store_of_form,
)
from ma_boot.errors import ConfigError
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import BootRequest, as_options, as_variables
from ma_boot.node.environment.command_words import TrainingCommand, read_command
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.rehearsal_options import ContainerOptions
from ma_boot.platform.modelarts.job import PLATFORM_GID, PLATFORM_UID


def rehearse_in_containers(
    rehearsal: Rehearsal, options: ContainerOptions, context: ProcessContext
) -> RehearsalResult:
    """Runs the job in containers; its exit code is that of the first node that failed.

    Everything on the engine is removed, however the rehearsal ends; with `keep` it stays if the job ended.

    Raises:
        BootError: something was wrong before the nodes were started.
        Stopped: a stop signal arrived before that.
    """
    started = time.monotonic()
    check_nodes(rehearsal)
    os.umask(0o022)  # the user of the nodes, who is another one, reads the rank table
    job = new_job(rehearsal, context)
    job = replace(job, machine=f"job-{job.uuid[:8]}")  # as in the names of its pods
    with sandbox_of(job, rehearsal), engine(context.environ) as client:
        check_runs_here(client, options.image)
        code, command = _code_of(rehearsal, context.cwd)
        request = _request_inside(rehearsal.request, code, command, context.cwd)
        found = files_of(code, rehearsal, command, context.cwd)
        obs_root = rehearsal.request.transfers.obs_root
        root = Path(context.cwd, obs_root).resolve() if obs_root else None
        store = store_of_form(context.environ, root) if rehearsal.channels else None
        setup = Setup(rehearsal, request, job, code=code, files=found.files, store=store, exact_paths=True)
        if found.note():
            context.journal.say(found.note())
        setup.make_nodes(range(job.nodes), context)
        _give_to_platform_user(job)
        inside = replace(job, exact_paths=True)  # as any node sees it
        arguments = (*channel_arguments(rehearsal.channels, inside, 0), *rehearsal.appended)
        with removing(job.uuid, context.environ, options.keep):
            created = create_containers(
                client,
                job,
                options,
                boot_options=(*as_options(request), *arguments),
                form_variables={**as_variables(request), **channel_variables(rehearsal.channels, inside, 0)},
                code_name=code.name if code else "code",
                obs_root=root,
                environ=context.environ,
            )

            def spec_of(start: SimulatedJob, node: int) -> WorkerSpec:
                argv = created.attach_command(node)
                return WorkerSpec(f"node {node}", argv, context.cwd, context.environ, job.node_log(node))

            runner = NodeRunner(lambda counts: created.job, spec_of, processes=created)
            exit_code = run_job(setup, runner, context, started)
            if options.keep:
                context.journal.say(created.kept_note())
            else:
                setup.remove_copies()
    return exit_code


def _give_to_platform_user(job: SimulatedJob) -> None:
    """Makes the platform's user the owner of the nodes' directories; without root, opens them to all."""
    is_root = os.geteuid() == 0
    roots = map(job.sandbox_root, range(job.nodes))
    for directory, _, files in chain.from_iterable(map(os.walk, roots)):
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            if is_root:
                os.chown(path, PLATFORM_UID, PLATFORM_GID)
            else:
                os.chmod(path, 0o777 if path == directory else 0o666)


def _code_of(rehearsal: Rehearsal, cwd: str) -> tuple[Path | None, TrainingCommand]:
    """The code directory and the command, as for processes, except that a script may also be in the image."""
    script = rehearsal.request.command.script
    if script is not None and os.path.isabs(script.name) and not os.path.exists(script.name):
        code, _ = code_directory(read_command(["in the image"]), rehearsal.options.code_dir, cwd)
        return code, rehearsal.request.command
    return code_directory(rehearsal.request.command, rehearsal.options.code_dir, cwd)


def _request_inside(
    request: BootRequest, code: Path | None, command: TrainingCommand, cwd: str
) -> BootRequest:
    """The request of every node: paths of files in the code directory are those inside, OBS has an address.

    Raises:
        ConfigError: no node would find a file.
    """
    inside = os.path.join(CODE_DIRECTORY, code.name if code else "")

    def placed(option: str, name: str) -> str:
        path = Path(cwd, name).resolve()
        if code is not None and code in path.parents and path.exists():
            return os.path.join(inside, str(path.relative_to(code)))
        if os.path.isabs(name) or not path.exists():  # it names a file of the image
            return name
        raise ConfigError(
            f"{option} {name} is not in the job's code directory ({code or 'none'}), so no node "
            "would find it: move it there, or name a parent directory with --code-dir"
        )

    sources, mapping = request.environment.source, request.transfers.path_mapping
    return request._replace(
        command=command_in(command, code, inside),
        job=request.job._replace(platform=None),  # each node recognises the platform
        environment=request.environment._replace(source=tuple(placed("--source", file) for file in sources)),
        ranks=of_simulated_table(request.ranks),
        transfers=request.transfers._replace(
            path_mapping=None if mapping is None else placed("--path-mapping", mapping),
            obs_root=None,
        ),
    )
