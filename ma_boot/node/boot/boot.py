"""The story: how one node of a job goes from the boot command to its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import ConfigError, OutputLost
from ma_boot.node.boot.checkpoint_phase import (
    RESTART_SHARE,
    NodeCheckpoints,
    restored_checkpoints,
    sending_outputs,
    sets_first,
    with_checkpoints,
)
from ma_boot.node.boot.environment_phase import NodeSetup, check_command, training_command
from ma_boot.node.boot.job_channel import OtherNodes
from ma_boot.node.boot.job_phase import (
    check_container,
    empty_outputs,
    form_channels,
    report_channels,
    report_shell,
    set_failure_aside,
    this_job,
)
from ma_boot.node.boot.launch_phase import (
    launch_text,
    make_directories,
    meeting_point,
    plan_node,
    working_directory,
)
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.rank_table_phase import find_ranks, own_ranks, planned_by_route, write_table
from ma_boot.node.boot.request import BootRequest, boot_command, without_own
from ma_boot.node.boot.run_phase import check_restarts, train
from ma_boot.node.boot.stray_files import Look, planned_look, report_stray_files
from ma_boot.node.environment.patch import applied
from ma_boot.node.environment.software import software_of
from ma_boot.node.environment.training_environment import TrainingEnvironment, select_environment
from ma_boot.node.launch.launch_plan import LaunchPlan, Node, Placement
from ma_boot.node.observe.reset import ResetWatch, reset_watch
from ma_boot.node.transfers.mapping import (
    NodeTransfers,
    configured_store,
    inputs_of,
    job_mapping,
    job_transfers,
    record_routes,
    with_shared_outputs,
)
from ma_boot.node.transfers.progress import told_of_credentials
from ma_boot.node.transfers.shared_outputs import report_conflicts
from ma_boot.node.transfers.transfers import NOTHING_LEFT, downloading_inputs, look_at_outputs, upload_outputs
from ma_boot.platform.modelarts.job import ChannelContent, JobEnvironment, instance_name
from ma_boot.platform.modelarts.network import address_of, check_free
from ma_boot.platform.modelarts.platform_programs import call_post_stop, start_slogd
from ma_boot.platform.rank_table import RankTable
from ma_boot.processes.children import stop_leftovers, stop_setup
from ma_boot.processes.control_group import limit_reached
from ma_boot.redact import remember_secrets
from ma_boot.report.exit_report import Ending, exit_status

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route

DNS_SECONDS = 300.0


def boot(request: BootRequest, context: ProcessContext) -> Ending:
    """Boots this node of the job, phase by phase.

    Every end is returned as an `Ending`: failures, stops and internal errors too. Once the mapping is known,
    the outputs are uploaded whatever happens.
    """
    with OtherNodes(context) as others:
        ending = _booted(request, others.context, others)
        cause, agreed = others.cause(ending)
        return ending._replace(cause=cause, agreed=agreed)


def _booted(request: BootRequest, context: ProcessContext, others: OtherNodes) -> Ending:
    """The phases; `others` are opened as soon as the job is known."""
    environ, inbox, journal = context.environ, context.inbox, context.journal
    job, transfers, placement, run, reset, look, error = None, None, None, None, None, None, None
    checkpoints = NodeCheckpoints()
    try:
        with journal.phase("job") as phase:
            job = _job(request, context)
            _open(others, request, job)
            transfers = _transfers(request, context, job, others)
            _check_before(request, context, job, transfers)
            phase.detail = job.summary()
        with journal.phase("environment") as phase:
            training = _set_up(request, context, job, inputs_of(transfers))
            phase.detail = training.origin
        with downloading_inputs(transfers, journal, inbox) as check, journal.phase("rank table") as phase:
            placement, table, job = _ranks(request, context, job, check)
            others.meet(placement, table, job, request.run.channel_port)
            write_table(placement, table, job)
            if request.launch.rendezvous == "rank-table":
                placement = planned_by_route(placement, job, training, inbox, journal.say)
            phase.detail = own_ranks(placement)
        checkpoints = _checkpoints(request, context, job, transfers, placement, table)
        training = training._replace(environ=applied(training.environ, checkpoints.variables))
        with journal.phase("launch") as phase:
            plan = _plan(request, context, job, training, placement)
            _make_room(request, context, plan, transfers)
            phase.detail = launch_text(plan, request.command, request.launch, request.ranks_start)
            reset = _reset(request, context, job, placement)
            look = planned_look(plan, job, transfers, context)
        with sending_outputs(transfers, checkpoints, journal, inbox), journal.phase("run") as phase:
            renew = partial(_renew, request, context, job, placement)
            run = train(plan, request.run, context, checkpoints, others, reset, renew)
            phase.outcome, phase.detail = run.outcome, run.summary()
    except Exception as caught:  # also what no check has foreseen: the outputs come first
        error = limit_reached(caught) or caught
    _leave(others, Ending.of(job, inbox.stops, error, run, None))
    if reset is not None:
        reset.end()
    with journal.only_helps("what the setup left running was not stopped"):
        stop_setup(request.run.stop_timeout, inbox, journal.say, journal.event)
    all_expected = bool(run and run.succeeded and not inbox.stops and placement and 0 in placement.ranks)
    nothing, timeout = NOTHING_LEFT if all_expected else "", _time_left(request, checkpoints)
    sets = sets_first(transfers, checkpoints.outputs, run, bool(inbox.stops), journal)
    lost = upload_outputs(transfers, journal, inbox, timeout, nothing, sets=sets, listen=others.listen)
    form, empty = _left(context, look, transfers, all_expected) if run is not None else ((), None)
    with journal.only_helps("the driver's script for the end was not run"):
        call_post_stop(environ, journal.warn)
    return Ending.of(job, inbox.stops, error, others.judged(run), lost or empty, form)


def _time_left(request: BootRequest, checkpoints: NodeCheckpoints) -> float:
    """The seconds for the last uploads, of which a restart for which OBS was away has used a part."""
    timeout = request.transfers.upload_timeout
    return max(timeout - checkpoints.waited_in_vain(), timeout * (1 - 2 * RESTART_SHARE))


def _open(others: OtherNodes, request: BootRequest, job: JobEnvironment) -> None:
    """Opens the channel to the other nodes; raises `ConfigError` where the job needs one and has no token."""
    others.open(job, request.run.channel_port)
    check_restarts(request.run, job, others.talks)


def _leave(others: OtherNodes, so_far: Ending) -> None:
    """Tells the other nodes, before the uploads, that this one takes part in no further attempt."""
    code, succeeded = exit_status(so_far).code, so_far.run is not None and so_far.run.succeeded
    others.leave(code if succeeded else code or 1)  # ranks that were stopped for another node's failure


def _left(
    context: ProcessContext, look: Look | None, transfers: NodeTransfers | None, all_expected: bool
) -> tuple[Sequence[ChannelContent], OutputLost | None]:
    """Returns the contents of the job form's directories, and the error of an empty output.

    Files outside of all outputs are reported, and those that other nodes would have replaced.
    """
    report_conflicts(transfers.shared if transfers else None, context.journal)
    form: Sequence[ChannelContent] = ()
    empty: OutputLost | None = None
    with context.journal.only_helps("files outside of the outputs were not looked for"):
        report_stray_files(look, context.journal, context.inbox)
    with context.journal.only_helps("inputs and outputs of the job form were not looked at"):
        form = form_channels(context.environ, context.journal, bool(context.inbox.stops))
        empty = empty_outputs(form, all_expected)
    return form, empty


def _job(request: BootRequest, context: ProcessContext) -> JobEnvironment:
    """The job, whose events are written from now on."""
    journal = context.journal
    job = this_job(request.job, context.environ, context.hostname, journal.say)
    journal.open(Path(job.events_file), job.node_rank)
    script = request.command.script
    program = os.path.basename(script.name if script is not None else request.command.words[0])
    journal.event("job", **job.event(), command=boot_command(request), program=program)
    set_failure_aside(job)
    report_shell(job, journal.warn)
    return job


def _transfers(
    request: BootRequest, context: ProcessContext, job: JobEnvironment, others: OtherNodes
) -> NodeTransfers | None:
    """What the mapping asks for; relative local paths start where the processes will run."""
    place = working_directory(request.launch, request.command, context.cwd, job.job_dir)
    announce = told_of_credentials(context.journal)
    transfers = job_transfers(request.transfers, context.environ, context.cwd, job, place, announce)
    if transfers is None:
        return None
    return with_shared_outputs(transfers, request.transfers, context.cwd, job, others.uploads)


def plan_only(request: BootRequest, context: ProcessContext) -> LaunchPlan:
    """What `boot` would start: waits for the rank table as it does; transfers, writes and starts nothing.

    Raises `BootError` and `Stopped`.
    """
    context = OtherNodes(context).context  # without the token of the channel
    job = this_job(request.job, context.environ, context.hostname)
    job_mapping(request.transfers.path_mapping, context.cwd, job)
    training = _environment(request, context, job)
    placement, _, job = _ranks(request, context, job, context.inbox.check)
    return _plan(request, context, job, training, placement, waits=False)


def _environment(request: BootRequest, context: ProcessContext, job: JobEnvironment) -> TrainingEnvironment:
    options, root, environ = request.environment, request.transfers.obs_root, without_own(context.environ)
    if root is not None:  # for the training's own `path_mapping.file`
        environ["PATH_MAPPING_OBS_ROOT"] = os.path.join(context.cwd, root)
    training = select_environment(
        options.python,
        options.conda_env,
        options.source,
        environ=environ,
        home=job.home,
        inbox=context.inbox,
        say=context.journal.say,
        cwd=context.cwd,
        job_dir=job.job_dir,
    )
    remember_secrets(training.environ)
    return training


def _check_before(
    request: BootRequest, context: ProcessContext, job: JobEnvironment, transfers: NodeTransfers | None
) -> None:
    """What is worth knowing before the training: this container, and whether its outputs can be uploaded."""
    if transfers is not None and transfers.shared is not None:
        context.journal.warn(transfers.shared.warning())
    record_routes(transfers, context.journal)
    if request.job.preflight:
        check_container(context.environ, context.hostname, job, context.journal.warn)
    look_at_outputs(transfers, context.inbox)
    report_channels(context.environ, context.journal.warn)


def _set_up(
    request: BootRequest, context: ProcessContext, job: JobEnvironment, inputs: Sequence[Route]
) -> TrainingEnvironment:
    """The training's environment, after what is done once before its processes."""
    training = _environment(request, context, job)
    by_mpi = request.launch.rendezvous == "mpi"
    command = check_command(request.command, training, context.cwd, job, inputs, by_mpi)
    setup = NodeSetup(context.environ, context.cwd, job.home, job.job_dir, context.inbox, context.journal.say)
    if request.environment.requirements is not None:
        training = setup.install_packages(request.environment.requirements, training)
    training = setup.run_pre_start(command.code if command else None, training)
    remember_secrets(training.environ)
    training = setup.install_operators(
        training, lambda: configured_store(request.transfers, context.environ, context.cwd)
    )
    versions = software_of(training.python, job.job_dir)
    context.journal.event("software", versions=versions)
    return training


def _checkpoints(
    request: BootRequest,
    context: ProcessContext,
    job: JobEnvironment,
    transfers: NodeTransfers | None,
    placement: Placement,
    table: RankTable | None,
) -> NodeCheckpoints:
    """The checkpoints in their place, before which nothing of an earlier start may write there."""
    if transfers is None or not with_checkpoints(transfers):
        return NodeCheckpoints()
    timeout, upload_timeout = request.ranks.rank_table_timeout, request.transfers.upload_timeout
    _stop_leftovers(request, context)
    return restored_checkpoints(
        transfers,
        placement,
        table,
        job,
        timeout=timeout,
        upload_timeout=upload_timeout,
        inbox=context.inbox,
        journal=context.journal,
    )


def _reset(
    request: BootRequest, context: ProcessContext, job: JobEnvironment, placement: Placement
) -> ResetWatch | None:
    """The watch on MindCluster's reset file, once processes may start; None without such a file.

    Raises `Stopped`, and what the wait raises.
    """
    timeout = request.ranks.rank_table_timeout
    watch = reset_watch(request.run.reset_file, job, placement.ranks, timeout, context.inbox, context.journal)
    if watch is not None:
        watch.start()
    context.inbox.check()
    return watch


def _renew(
    request: BootRequest,
    context: ProcessContext,
    job: JobEnvironment,
    placement: Placement,
    check: Callable[[], None],
) -> None:
    """Reads the rank table again, as a further attempt begins; raises what `check` does while it waits."""
    now, table, changed = _ranks(request, context, job, check)
    if (now.ranks, now.world_size) != (placement.ranks, placement.world_size):
        raise ConfigError(
            f"after the restart this node has {own_ranks(now)}, before it {own_ranks(placement)}: only "
            "a new start of the pod can change that"
        )
    write_table(now, table, changed)


def _make_room(
    request: BootRequest, context: ProcessContext, plan: LaunchPlan, transfers: NodeTransfers | None
) -> None:
    """Frees and creates what the processes of the plan need, before they start."""
    _stop_leftovers(request, context)
    make_directories(plan, inputs_of(transfers))
    check_free(plan.ports)
    start_slogd(context.environ, context.journal.say)


def _stop_leftovers(request: BootRequest, context: ProcessContext) -> None:
    """Stops what an earlier start has left: it holds devices and ports, and may write checkpoints."""
    container, journal = instance_name(context.environ), context.journal
    stop_leftovers(container, request.run.stop_timeout, context.inbox, journal.say, journal.event)


def _ranks(
    request: BootRequest, context: ProcessContext, job: JobEnvironment, check: Callable[[], None]
) -> tuple[Placement, RankTable | None, JobEnvironment]:
    rendezvous, sleep, say = request.launch.rendezvous, context.inbox.wait, context.journal.say
    return find_ranks(request.ranks, rendezvous, job, context.cwd, sleep, say, check)


def _plan(
    request: BootRequest,
    context: ProcessContext,
    job: JobEnvironment,
    training: TrainingEnvironment,
    ranks: Placement,
    waits: bool = True,
) -> LaunchPlan:
    """The launch plan; unless it `waits` for the name server, a master stays a name."""
    command = training_command(request.command, training, context.cwd, job)
    port = training.environ.get("MASTER_PORT", "")

    def look_up(host: str) -> str:
        return address_of(host, DNS_SECONDS, context.journal.say, context.inbox) if waits else host

    master = meeting_point(request.launch, job, port, look_up)
    return plan_node(
        Node(
            job=job,
            placement=ranks,
            command=command,
            cwd=working_directory(request.launch, request.command, context.cwd, job.job_dir),
            environ=command.environment(training.environ),
            master=master,
            is_root=os.geteuid() == 0,
        ),
        request.launch,
    )
