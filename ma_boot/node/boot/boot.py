"""The boot of one node of a job, from the boot command to its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Callable

from ma_boot.errors import ConfigError, OutputLost
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.boot.cache_phase import NodeCache, open_cache
from ma_boot.node.boot.checkpoint_phase import (
    RESTART_SHARE,
    CheckpointPhase,
    NodeCheckpoints,
    checkpoints_first,
    has_checkpoints,
    open_checkpoints,
    sending_outputs,
)
from ma_boot.node.boot.environment_phase import selected_environment, set_up, training_command
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
    find_hidden_devices,
    launch_text,
    make_directories,
    meeting_point,
    plan_node,
    working_directory,
)
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.rank_table_phase import find_ranks, own_ranks, planned_by_route, write_table
from ma_boot.node.boot.request import BootRequest, boot_command
from ma_boot.node.boot.run_phase import TrainingRun, check_restarts, train
from ma_boot.node.boot.stray_files import Look, planned_look, report_stray_files
from ma_boot.node.environment.patch import applied
from ma_boot.node.environment.training_environment import TrainingEnvironment
from ma_boot.node.launch.launch_plan import LaunchPlan, Node, Placement
from ma_boot.node.launch.node_variables import explain_unexpanded
from ma_boot.node.observe.reset import ResetWatch, reset_watch
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.transfers.downloads import downloading_inputs
from ma_boot.node.transfers.mapping import (
    NodeTransfers,
    inputs_of,
    job_mapping,
    job_transfers,
    record_routes,
    with_shared_outputs,
)
from ma_boot.node.transfers.progress import credentials_reporter
from ma_boot.node.transfers.shared_outputs import report_conflicts
from ma_boot.node.transfers.transfer_errors import NOTHING_LEFT
from ma_boot.node.transfers.uploads import UploadTerms, check_output_access, upload_outputs
from ma_boot.platform.modelarts.job import JOB_TOKEN, ChannelContent, JobEnvironment, instance_name
from ma_boot.platform.modelarts.network import address_of, check_free
from ma_boot.platform.modelarts.platform_programs import call_post_stop, start_slogd
from ma_boot.platform.rank_table import RankTable
from ma_boot.processes.children import stop_leftovers, stop_setup
from ma_boot.processes.control_group import limit_reached
from ma_boot.report.exit_report import Ending, exit_status
from ma_boot.report.result import RunResult

# Seconds; max. wait until the name server has the master's name: its record comes with the master's pod.
DNS_SECONDS = 300.0


class Reached:
    """Results of the phases so far, which the end of the node needs: None before their phase."""

    def __init__(self) -> None:
        self.boot: Boot | None = None
        self.placement: Placement | None = None
        self.checkpoints = NodeCheckpoints()
        self.cache = NodeCache()
        self.reset: ResetWatch | None = None
        self.look: Look | None = None
        self.run: RunResult | None = None
        self.error: Exception | None = None

    @property
    def transfers(self) -> NodeTransfers | None:
        """The transfers of the node, None before the mapping is known, or without one."""
        return self.boot.transfers if self.boot is not None else None

    def ending(
        self,
        stops: Sequence[int],
        run: RunResult | None,
        lost: OutputLost | None = None,
        form: Sequence[ChannelContent] = (),
    ) -> Ending:
        """Returns the ending of the node with these stop signals and this result of its processes."""
        job = self.boot.job if self.boot is not None else None
        return Ending.of(job, stops, self.error, run=run, lost=lost, form=form)


def boot(request: BootRequest, context: ProcessContext) -> Ending:
    """Boots this node of the job, phase by phase.

    Every end is returned as an `Ending`: failures, stops and internal errors too. Once the mapping is known,
    the outputs are uploaded in each of these cases.
    """
    context, token = _take_token(context)
    inbox, journal = context.inbox, context.journal
    reached = Reached()
    with JobPeers(token, inbox, journal) as peers:
        try:
            with journal.phase("job") as phase:
                state = reached.boot = Boot(request, context, peers, _read_job(request, context))
                _open_channel(state)
                state = reached.boot = state._replace(transfers=_transfers(state))
                _check_before(state)
                phase.detail = state.job.summary()
            # Before any download: a missing command or environment is reported at once.
            with journal.phase("environment") as phase:
                training = selected_environment(state)
                state = reached.boot = _with_ledger(state, training)
                training = set_up(state, training)
                phase.detail = training.origin
            # Inputs are downloaded while the rank table is awaited.
            downloading = downloading_inputs(state.transfers, journal, inbox)
            with downloading as check, journal.phase("rank table") as phase:
                placement, table, job = _find_ranks(state, check)
                state = reached.boot = state._replace(job=job)
                _meet(state, placement, table)
                write_table(placement, table, job)
                # With another rendezvous the ranks follow the node numbers, not the table.
                if request.launch.rendezvous == "rank-table":
                    placement = planned_by_route(placement, job, training, inbox=inbox, say=journal.say)
                reached.placement = placement
                phase.detail = own_ranks(placement)
            checkpoints = reached.checkpoints = _restored_checkpoints(state, placement, table)
            cache = reached.cache = open_cache(state, training)
            training = _with_restored(training, checkpoints, cache)
            with journal.phase("launch") as phase:
                plan = _plan(state, training, placement)
                _make_room(state, plan)
                phase.detail = launch_text(plan, request, job.node_count)
                reset = reached.reset = _reset(state, placement)
                reached.look = planned_look(plan, job, state.transfers, state.context)
            reached.run = _given_up(state)
            if reached.run is None:
                renew = partial(_renew, state, placement)
                run = TrainingRun(state, plan, training.origin, checkpoints, reset, renew)
                with cache.publishing():
                    reached.run = _run(run)
        # Errors of ma_boot itself, too: the outputs are uploaded before they are reported.
        except Exception as caught:
            reached.error = limit_reached(caught) or caught
        ending = _end(request, context, peers, reached)
        cause, agreed = peers.root_cause(ending)
        return _noted(ending._replace(cause=cause, agreed=agreed), reached)


def _take_token(context: ProcessContext) -> tuple[ProcessContext, str]:
    """Returns the context without the channel's token, which no rank and no child may see, and the token."""
    environ = dict(context.environ)
    token = environ.pop(JOB_TOKEN, "")
    return context._replace(environ=environ), token


def _end(request: BootRequest, context: ProcessContext, peers: JobPeers, reached: Reached) -> Ending:
    """Ends the node: stops what still runs, uploads the outputs and looks at them."""
    run, transfers = reached.run, reached.transfers
    inbox, journal = context.inbox, context.journal
    _leave(peers, reached.ending(inbox.stops, run))
    if reached.reset is not None:
        reached.reset.end()
    with journal.best_effort("processes left by the setup were not stopped"):
        stop_setup(request.run.stop_timeout, inbox, journal.say, journal.event)
    all_expected = _are_outputs_expected(reached, bool(inbox.stops))
    sets = checkpoints_first(
        transfers, reached.checkpoints.outputs, run, stopped=bool(inbox.stops), journal=journal
    )
    terms = UploadTerms(
        timeout=_time_left(request, reached.checkpoints),
        missing=NOTHING_LEFT if all_expected else "",
        checkpoints=sets,
        listen=peers.listen,
    )
    lost = upload_outputs(transfers, journal, inbox, terms)
    reached.cache.finish(run)
    form, empty = _look_at_end(context, reached, all_expected) if run is not None else ((), None)
    with journal.best_effort("the driver's post-stop script was not run"):
        call_post_stop(context.environ, journal.warn)
    # After the uploads: a peer may have failed meanwhile, and then this node has not succeeded.
    judged = peers.restarts.judged(run) if run is not None else None
    return reached.ending(inbox.stops, judged, lost or empty, form)


def _meet(boot: Boot, placement: Placement, table: RankTable | None) -> None:
    """Takes the ranks and servers of all nodes, once they are known."""
    boot.peers.meet(placement, table, boot.job, boot.request.run.channel_port)
    if boot.ledger is not None:
        boot.ledger.meet(placement, table, boot.job)


def _noted(ending: Ending, reached: Reached) -> Ending:
    """Writes the ending of this start to the job's ledger, where there is one."""
    boot = reached.boot
    if boot is not None and boot.ledger is not None:
        boot.ledger.note_end(ending, reached.checkpoints, boot.peers.restarts.ends)
    return ending


def _are_outputs_expected(reached: Reached, is_stopped: bool) -> bool:
    """Returns whether an output without files is a loss: rank 0, which writes them, has succeeded here."""
    if reached.run is None or reached.placement is None or is_stopped:
        return False
    return reached.run.succeeded and 0 in reached.placement.ranks


def _time_left(request: BootRequest, checkpoints: NodeCheckpoints) -> float:
    """Returns the seconds for the last uploads, without those for which a restart has waited for OBS."""
    timeout = request.transfers.upload_timeout
    return max(timeout - checkpoints.seconds_away(), timeout * (1 - 2 * RESTART_SHARE))


def _leave(peers: JobPeers, so_far: Ending) -> None:
    """Reports to the peers, before the uploads, that this node takes part in no further attempt."""
    code = exit_status(so_far).code
    has_succeeded = so_far.run is not None and so_far.run.succeeded
    # Ranks that were stopped for another node's failure may all have ended with 0: that is no success.
    peers.restarts.leave(code if has_succeeded else code or 1)


def _look_at_end(
    context: ProcessContext, reached: Reached, all_expected: bool
) -> tuple[Sequence[ChannelContent], OutputLost | None]:
    """Returns the contents of the job form's directories, and the error of an empty output.

    Reports files outside of all outputs, and files that would have replaced those of other nodes.
    """
    journal, inbox = context.journal, context.inbox
    report_conflicts(reached.transfers.shared if reached.transfers else None, journal)
    form: Sequence[ChannelContent] = ()
    empty: OutputLost | None = None
    with journal.best_effort("files outside of the outputs were not looked for"):
        report_stray_files(reached.look, journal, inbox)
    with journal.best_effort("inputs and outputs of the job form were not looked at"):
        form = form_channels(context.environ, journal, bool(inbox.stops))
        empty = empty_outputs(form, all_expected)
    return form, empty


def plan_only(request: BootRequest, context: ProcessContext) -> LaunchPlan:
    """Returns the plan that `boot` would start: waits for the rank table, but transfers and starts nothing.

    Raises `BootError` and `Stopped`.
    """
    context, _ = _take_token(context)
    job = this_job(request.job, context.environ, context.hostname)
    state = Boot(request, context, JobPeers("", context.inbox, context.journal), job)
    job_mapping(request.transfers.path_mapping, context.cwd, job)
    training = selected_environment(state)
    placement, _, job = _find_ranks(state, context.inbox.check)
    return _plan(state._replace(job=job), training, placement, waits=False)


def _read_job(request: BootRequest, context: ProcessContext) -> JobEnvironment:
    """Returns the job, and opens its journal."""
    journal = context.journal
    job = this_job(request.job, context.environ, context.hostname, journal.say)
    journal.open(Path(job.events_file), job.node_rank)
    script = request.command.script
    program = os.path.basename(script.name if script is not None else request.command.words[0])
    journal.event("job", **job.event(), command=boot_command(request), program=program)
    set_failure_aside(job)
    report_shell(job, journal.warn)
    return job


def _open_channel(boot: Boot) -> None:
    """Opens the channel to the peers; raises `ConfigError` where the job needs one and has no token."""
    boot.peers.open(boot.job, boot.request.run.channel_port)
    check_restarts(boot.request.run, boot.job, boot.peers.is_connected)


def _transfers(boot: Boot) -> NodeTransfers | None:
    """Returns the transfers of the mapping; relative local paths start where the processes will run."""
    request, context = boot.request, boot.context
    transfers = job_transfers(
        request.transfers,
        context.environ,
        context.cwd,
        job=boot.job,
        base=_working_directory(boot),
        announce=credentials_reporter(boot.journal),
    )
    if transfers is None:
        return None
    return with_shared_outputs(transfers, request.transfers, context.cwd, boot.job, boot.peers.uploads)


def _check_before(boot: Boot) -> None:
    """Checks before any download what could fail hours later: this container, and access to the outputs."""
    context, journal, transfers = boot.context, boot.journal, boot.transfers
    if transfers is not None and transfers.shared is not None:
        journal.warn(transfers.shared.warning())
    record_routes(transfers, journal)
    if boot.request.job.preflight:
        check_container(context.environ, context.hostname, boot.job, journal.warn)
    check_output_access(transfers, boot.inbox)
    report_channels(context.environ, journal.warn)


def _with_ledger(boot: Boot, training: TrainingEnvironment) -> Boot:
    """Begins the ledger of this start, where the job has a place for it.

    Raises `RepeatedFailure` if the start would repeat the failure of earlier ones.
    """
    if not (has_checkpoints(boot.transfers) or boot.request.run.ledger):
        return boot
    from ma_boot.node.boot.ledger_phase import open_ledger

    return boot._replace(ledger=open_ledger(boot, training.python))


def _restored_checkpoints(boot: Boot, placement: Placement, table: RankTable | None) -> NodeCheckpoints:
    """Restores the checkpoints to resume from."""
    if boot.transfers is None or not has_checkpoints(boot.transfers):
        return NodeCheckpoints()
    # Before the download: a process of an earlier start may still write to the same directory.
    _stop_leftovers(boot)
    phase = CheckpointPhase(
        boot.transfers,
        timeout=boot.request.ranks.rank_table_timeout,
        upload_timeout=boot.request.transfers.upload_timeout,
        inbox=boot.inbox,
        journal=boot.journal,
    )
    checkpoints = open_checkpoints(phase, placement, table, boot.job)
    checkpoints.restore()
    return checkpoints


def _with_restored(
    training: TrainingEnvironment, checkpoints: NodeCheckpoints, cache: NodeCache
) -> TrainingEnvironment:
    """Restores the compile cache; the variables lead the training to it and to the restored checkpoints."""
    variables = {**checkpoints.variables, **cache.restore(training.environ)}
    return training._replace(environ=applied(training.environ, variables))


def _reset(boot: Boot, placement: Placement) -> ResetWatch | None:
    """Starts the watch on MindCluster's reset file, once processes may start; None without such a file.

    Raises `Stopped`, and what the wait raises.
    """
    watch = reset_watch(
        boot.request.run.reset_file,
        boot.job,
        placement.ranks,
        timeout=boot.request.ranks.rank_table_timeout,
        inbox=boot.inbox,
        journal=boot.journal,
    )
    if watch is not None:
        watch.start()
    boot.inbox.check()
    return watch


def _renew(boot: Boot, placement: Placement, check: Callable[[], None]) -> None:
    """Reads the rank table again before a further attempt; raises what `check` raises while it waits."""
    now, table, changed = _find_ranks(boot, check)
    if (now.ranks, now.world_size) != (placement.ranks, placement.world_size):
        raise ConfigError(
            f"after the restart this node has {own_ranks(now)}, before it {own_ranks(placement)}: only "
            "a new start of the pod can change that"
        )
    write_table(now, table, changed)


def _make_room(boot: Boot, plan: LaunchPlan) -> None:
    """Frees devices and ports, and creates the directories of the plan."""
    _stop_leftovers(boot)
    make_directories(plan, inputs_of(boot.transfers))
    check_free(plan.ports)
    start_slogd(boot.context.environ, boot.journal.say)


def _stop_leftovers(boot: Boot) -> None:
    """Stops processes of an earlier start in this container, which hold devices and ports."""
    container, journal = instance_name(boot.context.environ), boot.journal
    stop_leftovers(container, boot.request.run.stop_timeout, boot.inbox, journal.say, journal.event)


def _find_ranks(boot: Boot, check: Callable[[], None]) -> tuple[Placement, RankTable | None, JobEnvironment]:
    return find_ranks(boot.request.ranks, boot.request.launch.rendezvous, boot.job, boot.context, check)


def _given_up(boot: Boot) -> RunResult | None:
    """Waits until the ranks of all nodes can start; returns the result if a node has failed before that.

    Only for a rendezvous at an address: its timeout would end the ranks of the nodes that are ready first.
    Without a channel no node waits. Raises `Stopped`.
    """
    if not (boot.request.launch.meets_at_address and boot.peers.is_connected):
        return None
    with boot.journal.phase("peers") as phase:
        failure = boot.peers.await_start()
        phase.outcome = "done" if failure is None else "stopped"
        phase.detail = "" if failure is None else failure.cause
    return None if failure is None else RunResult((), stopped_for=failure)


def _run(run: TrainingRun) -> RunResult:
    """Runs the processes, and uploads outputs meanwhile."""
    boot = run.boot
    sending = sending_outputs(boot.transfers, run.checkpoints, boot.journal, boot.inbox)
    with sending, boot.journal.phase("run") as phase:
        result = train(run)
        phase.outcome, phase.detail = result.outcome, result.summary()
    return result


def _working_directory(boot: Boot) -> str:
    request = boot.request
    return working_directory(request.launch, request.command, boot.context.cwd, boot.job.job_dir)


def _plan(boot: Boot, training: TrainingEnvironment, ranks: Placement, waits: bool = True) -> LaunchPlan:
    """Returns the launch plan and warns of its traps; unless it `waits` for the name server, the master
    stays a name.
    """
    request, context, job = boot.request, boot.context, boot.job
    command = training_command(request.command, training, context.cwd, job)
    # The platform's port is part of its place, or that of the torchrun which has started ma_boot.
    port = "" if "MASTER_PORT" in job.node_variables else training.environ.get("MASTER_PORT", "")

    def look_up(host: str) -> str:
        return address_of(host, DNS_SECONDS, boot.journal.say, boot.inbox) if waits else host

    plan = plan_node(
        Node(
            job=job,
            placement=ranks,
            command=command,
            cwd=_working_directory(boot),
            environ=command.environment(training.environ),
            master=meeting_point(request.launch, job, port, look_up),
            is_root=os.geteuid() == 0,
        ),
        request.launch,
    )
    for warning in find_hidden_devices(training.environ, len(ranks.ranks)):
        boot.journal.warn(warning)
    unexpanded = explain_unexpanded(request.command.words, plan.workers[-1].argv, job.job_dir)
    # The words are the same on all nodes.
    if unexpanded is not None and job.node_rank == 0:
        boot.journal.warn(unexpanded)
    return plan
