"""Sets a rehearsal up: checks what it needs, creates the directories of nodes, serves OBS, fetches inputs."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ma_boot.desk.rehearsal.platform.code_directory import (
    CodeFiles,
    code_directory,
    code_files,
    copy_code,
    remove_copy,
    script_in,
)
from ma_boot.desk.rehearsal.platform.simulated_job import DIRECTORIES, PRODUCT, SIMULATED, SimulatedJob
from ma_boot.desk.rehearsal.platform_side import ServedObs, download_inputs, served
from ma_boot.desk.rehearsal.requested import Rehearsal
from ma_boot.desk.rehearsal.sandbox import check_installed
from ma_boot.desk.rehearsal.simulated_cards import add_npu_smi
from ma_boot.errors import CannotCreate, ConfigError, UsageError
from ma_boot.node.boot.options import RankOptions, RunOptions
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import BootRequest
from ma_boot.node.caches.options import EXTENSION
from ma_boot.node.environment.command import no_such_file
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.platform.modelarts.job import JOB_TOKEN
from ma_boot.platform.modelarts.network import free_port
from ma_boot.wording import counted, size
from path_mapping.errors import CredentialsMissing, MappingInvalid
from path_mapping.mapping.mapping_file import read_mapping
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store

_LARGE_BYTES = 100e6


@dataclass(frozen=True)
class Setup:
    """A rehearsal that is ready to run.

    `request` has the command as it is on the nodes; `code` and its `files` are on every node. The platform's
    transfers use `store` (None if the job form has no inputs or outputs); `obs` is `--obs-root`, served. With
    `exact_paths` the nodes see the platform's own paths.
    """

    rehearsal: Rehearsal
    request: BootRequest
    job: SimulatedJob
    code: Path | None
    files: tuple[Path, ...]
    store: Store | None
    exact_paths: bool
    obs: ServedObs | None = None

    def make_nodes(self, nodes: Sequence[int], context: ProcessContext) -> None:
        """Creates the directories of nodes, with the code and the inputs of the job form.

        Raises:
            BootError: a directory cannot be created, or an input cannot be downloaded.
            Stopped: a stop signal arrived.
        """
        for node in nodes:
            context.inbox.check()
            try:
                for directory in DIRECTORIES:
                    Path(self.job.sandbox_root(node) + directory).mkdir(parents=True)
                if self.rehearsal.has_bad_card(node):
                    add_npu_smi(self.job.home(node), self.job.devices_per_node)
            except OSError as error:
                raise CannotCreate(f"cannot create the sandbox {self.job.root}: {error.strerror}") from error
            if self.code is not None:
                copy_code(self.code, self.files, Path(self.job.job_dir(node), self.code.name))
        if self.store is not None:
            download_inputs(self.rehearsal.channels, self.job, nodes, self.store, context)

    def remove_copies(self) -> None:
        """Removes the copies of code and inputs, which the job no longer needs; logs and results stay."""
        for node in range(self.job.nodes):
            if self.code is not None:
                remove_copy(self.files, Path(self.job.job_dir(node), self.code.name))
            for channel in self.rehearsal.channels:
                if channel.is_input:
                    shutil.rmtree(channel.directory(self.job, node), ignore_errors=True)


@contextmanager
def set_up(rehearsal: Rehearsal, job: SimulatedJob, context: ProcessContext) -> Iterator[Setup]:
    """Sets a rehearsal up; OBS is served during the block.

    Raises:
        BootError: something that it needs is wrong or missing.
        Stopped: a stop signal arrived.
    """
    check_nodes(rehearsal)
    if rehearsal.options.sandbox is not None:
        check_installed(context.environ, "--sandbox bwrap")
    if rehearsal.faults_of("disk"):
        check_installed(context.environ, "--fault disk-full")
    code, command = code_directory(rehearsal.request.command, rehearsal.options.code_dir, context.cwd)
    _check_files(rehearsal.request, code, context.cwd)
    found = files_of(code, rehearsal, command, context.cwd)
    launch, run, transfers = rehearsal.request.launch, rehearsal.request.run, rehearsal.request.transfers
    # Another rehearsal may use the usual port for the nodes.
    channel_port = free_port() if run.channel_port == RunOptions().channel_port else run.channel_port
    mapping = transfers.path_mapping
    request = rehearsal.request._replace(
        command=command,
        job=rehearsal.request.job._replace(platform=None),  # each node recognises the platform
        ranks=of_simulated_table(rehearsal.request.ranks),
        launch=launch._replace(rendezvous_port=launch.rendezvous_port or free_port()),
        run=run._replace(channel_port=channel_port),
        transfers=transfers._replace(path_mapping=str(Path(context.cwd, mapping)) if mapping else None),
    )
    root = Path(context.cwd, transfers.obs_root) if transfers.obs_root else None
    with ExitStack() as stack:
        obs = None
        if root is not None:
            if not root.exists():
                context.journal.say(f"--obs-root {root}: no such directory, so it is made, and OBS is empty")
            obs = stack.enter_context(served(root, context.journal.say))
        store = store_of_form(context.environ, root) if rehearsal.channels else None
        setup = Setup(
            rehearsal,
            request,
            job,
            code=code,
            files=found.files,
            store=store,
            exact_paths=rehearsal.options.sandbox is not None,
            obs=obs,
        )
        for note in filter(None, (size_note(code, found.files, job.nodes), found.note())):
            context.journal.say(note)
        try:
            setup.make_nodes(range(job.nodes), context)
            yield setup
        finally:
            setup.remove_copies()


def of_simulated_table(ranks: RankOptions) -> RankOptions:
    """The options for the simulated rank table: its product is `PRODUCT` unless the user names another."""
    simulated = ranks.product is None and ranks.rank_table_file is None
    return ranks._replace(product=PRODUCT) if simulated else ranks


def _check_files(request: BootRequest, code: Path | None, cwd: str) -> None:
    """Reports once, not once per node, that a file of an option is missing or invalid.

    Raises:
        ConfigError: a file is missing, or the path mapping has mistakes.
    """
    environment, mapping = request.environment, request.transfers.path_mapping
    in_code = [str(code)] if code else []
    wanted = [("--source", name, [cwd, *in_code]) for name in environment.source]
    wanted += [("--requirements", name, in_code) for name in filter(None, [environment.requirements])]
    wanted += [("--path-mapping", name, [cwd]) for name in filter(None, [mapping])]
    problems = []
    for option, name, places in wanted:
        files = [os.path.normpath(os.path.join(place, name)) for place in places] or [name]
        if not any(map(os.path.isfile, files)):
            problems.append(f"{option} {no_such_file(name, list(dict.fromkeys(files)))}")
    if problems:
        raise ConfigError("\n".join(problems))
    if mapping is not None:
        try:
            read_mapping(Path(cwd, mapping), {"job": "job", "node": "0", "rank": "0"}, EXTENSION)
        except MappingInvalid as error:
            raise ConfigError(str(error)) from error


def check_nodes(rehearsal: Rehearsal) -> None:
    """Raises `UsageError` if the platform is not simulated, or a fault is of ranks that start otherwise."""
    launch = rehearsal.request.launch
    platform = rehearsal.request.job.platform
    if platform not in (None, *SIMULATED):
        raise UsageError(f"--platform {platform}: expected {', '.join(SIMULATED)} with --local")
    of_ranks = [f"--fault '{fault}'" for fault in rehearsal.faults_of("rank")]
    if of_ranks and not launch.starts_ranks:
        per_node = rehearsal.request.ranks_start or "--per-node"
        raise UsageError(
            f"{', '.join(of_ranks)}: expected ranks that ma_boot starts, found "
            f"{per_node if launch.per_node else '--rendezvous mpi'}, with which one process per node "
            "starts them: use faults of nodes, of the rank table, of OBS or of disks"
        )


def new_job(rehearsal: Rehearsal, context: ProcessContext) -> SimulatedJob:
    """A job with a new name and token, and a sandbox directory that does not exist yet."""
    identity = str(uuid.uuid4())
    root = Path(context.cwd, rehearsal.options.rehearsal_dir, f"ma-job-{identity[:8]}")
    token = context.environ.get(JOB_TOKEN, os.urandom(16).hex())  # empty: a job without one
    platform = rehearsal.request.job.platform or "modelarts"
    return SimulatedJob(
        identity,
        str(root),
        rehearsal.options.nodes,
        devices_per_node=rehearsal.options.devices_per_node,
        platform=platform,
        machine=os.uname().nodename,
        token=token,
    )


def files_of(code: Path | None, rehearsal: Rehearsal, command: TrainingCommand, cwd: str) -> CodeFiles:
    """The files of the code directory, without rehearsals and OBS that are in it; `command` is that of nodes.

    Raises:
        ConfigError: they exceed the platform's limits.
    """
    if code is None:
        return CodeFiles()
    places = (rehearsal.options.rehearsal_dir, rehearsal.request.transfers.obs_root)
    apart = [Path(cwd, place).resolve() for place in places if place]
    return code_files(code, apart, rehearsal.options.exclude, script=script_in(code, command))


def size_note(code: Path | None, files: Sequence[Path], nodes: int) -> str:
    """Returns a note on the size of the copied code if copying takes long; else an empty string."""
    total = sum((code / file).stat().st_size for file in files) if code is not None else 0
    if total * nodes < _LARGE_BYTES:
        return ""
    return (
        f"copying {size(total)} of code in {code} to {counted(nodes, 'node')}, until the end "
        "(--code-dir or --exclude: less of it)"
    )


def store_of_form(environ: Mapping[str, str], root: Path | None) -> Store:
    """OBS for the inputs and outputs of the job form: the directory `root`, or what `environ` configures.

    Raises:
        ConfigError: `root` is None, and credentials are missing.
    """
    try:
        return open_store(environ, root)
    except CredentialsMissing as error:
        raise ConfigError(
            "--input and --output: name a directory that stands for OBS with --obs-root; for OBS itself, "
            f"{error}"
        ) from error
