"""Run phase: the node's processes under supervision, restarted after a failure where that may help."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, NamedTuple

from ma_boot.errors import BootError, ConfigError, Stopped
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.boot.checkpoint_phase import CutFiles, NodeCheckpoints
from ma_boot.node.boot.node_health import find_defect, wait_for_cards
from ma_boot.node.boot.options import RunOptions
from ma_boot.node.boot.recorder_phase import recording
from ma_boot.node.launch.launch_plan import LaunchPlan, WorkerSpec
from ma_boot.node.observe.failure_evidence import FailedPlogs, PortWatch
from ma_boot.node.observe.hangs.hang_detector import HangDetector, HangOptions
from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.metrics.progress import last_step
from ma_boot.node.observe.metrics.sampler import Metrics, Sampling
from ma_boot.node.observe.reset import ResetWatch
from ma_boot.node.observe.saving.save_agreement import SaveAgreement
from ma_boot.node.observe.saving.save_requests import SaveOptions, SaveRequests
from ma_boot.node.observe.semaphores import Semaphores
from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, Verdict
from ma_boot.node.peers.restart_coordinator import PeerOver
from ma_boot.node.supervisor.supervise import Limits, Observer, supervise
from ma_boot.platform.modelarts.job import JOB_TOKEN, JobEnvironment, instance_name
from ma_boot.processes.orphan_guard import own_marker
from ma_boot.report.result import RunResult
from ma_boot.wording import Message

if TYPE_CHECKING:
    from ma_boot.node.observe.ranks_of_scripts.script_watch import ScriptWatch

# Seconds; max. time to publish checkpoints after an attempt, a part of those in which the nodes have to
# agree.
PUBLISH_SECONDS = 60.0
# Variable of the ranks that names the file of save requests; read by `ma_boot.training`.
SAVE_FILE = "MABOOT_SAVE_FILE"


def check_restarts(options: RunOptions, job: JobEnvironment, has_channel: bool) -> None:
    """Raises `ConfigError` for restarts in a job whose nodes have no channel to agree on them."""
    if options.max_restarts and job.node_count > 1 and not has_channel:
        raise ConfigError(
            Message.of(
                "--max-restarts with {} nodes requires a job token: set MABOOT_JOB_TOKEN to the same "
                "random text on all nodes, and to another one in each job, for example from "
                "`openssl rand -hex 16`",
                job.node_count,
            )
        )


class TrainingRun(NamedTuple):
    """Run phase of a node: the launch plan, and the parts that prepare a further attempt.

    `python` is the training's, with what selected it.
    `reset` is the watch on MindCluster's reset file, if there is one; `renew` reads the rank table again,
    with a check that its waits call.
    """

    boot: Boot
    plan: LaunchPlan
    python: str
    checkpoints: NodeCheckpoints
    reset: ResetWatch | None
    renew: Callable[[Callable[[], None]], None]

    @property
    def options(self) -> RunOptions:
        """The options for the running processes."""
        return self.boot.request.run


def train(run: TrainingRun) -> RunResult:
    """Runs the processes to the end of the last attempt.

    After a failure that a restart may fix, or for `run.reset`, all of them run again. Each attempt has its
    own log files: those of the previous one get a number. The nodes of a job restart together: all stop, node
    0 decides, and all run again or none.
    """
    result = _run_attempts(run)
    if result.first_failure is None:
        return result
    advice: tuple[str, ...] = ()
    with run.boot.journal.best_effort("no advice on the failure"):
        from ma_boot.node.boot.failure_advice import FailurePlace, failure_advice

        cwd = run.boot.job.with_job_paths(run.plan.workers[0].cwd)
        advice = failure_advice(result, FailurePlace(run.plan.code, cwd, run.python))
    return result if result.advice else result._replace(advice=advice)


def _run_attempts(run: TrainingRun) -> RunResult:
    """Runs attempts until one succeeds, or a further one cannot help; returns the result of the last one."""
    journal, restarts, options = run.boot.journal, run.boot.peers.restarts, run.options
    restarts.begin(
        RestartPolicy(
            options.max_restarts,
            options.start_seconds,
            retry_on=options.retry_on,
            no_retry_on=options.no_retry_on,
        )
    )
    workers: Sequence[WorkerSpec] = run.plan.workers
    for attempt in itertools.count(1):
        # For trainings that count their restarts (docs/supervision.md).
        if options.max_restarts:
            workers = [_with_variable(worker, "MABOOT_ATTEMPT", str(attempt)) for worker in workers]
        result = _run_attempt(run, workers, attempt)
        reason = _reset_reason(run, result)
        is_reset = bool(reason)
        if not is_reset:
            if result.succeeded or not options.max_restarts:
                break
            verdict = _decide(run, result, workers)
            _note_in_ledger(run, result, verdict)
            if not verdict.again:
                journal.say(f"attempt {attempt}: {result.summary()}; no restart: {verdict.why}")
                return result._replace(stopped_for=restarts.failure_to_restart(verdict.why))
            reason = verdict.why
        # A reset by the platform does not use up the budget of restarts.
        of_budget = "" if is_reset else f" of {options.max_restarts + 1}"
        journal.event("restart", attempt=attempt + 1, reason=reason)
        journal.say(f"attempt {attempt}: {reason}; starting attempt {attempt + 1}{of_budget}")
        try:
            workers = _prepare(run, workers, is_reset)
        except (BootError, PeerOver, Stopped) as error:
            journal.warn(f"no restart: {error}")
            if is_reset and isinstance(error, BootError):
                result = result._replace(not_started=error)
            return result._replace(stopped_for=restarts.failure_to_restart(str(error)))
        if is_reset:
            restarts.count_reset()
    return result


def _run_attempt(run: TrainingRun, workers: Sequence[WorkerSpec], attempt: int) -> RunResult:
    """Runs the processes once, with all their observers."""
    boot, options, peers = run.boot, run.options, run.boot.peers
    inbox, journal = boot.inbox, boot.journal
    output = OutputReader(options.metric, journal.warn)
    detection = HangOptions(options.hang_timeout, options.hang_action)
    hangs = HangDetector(detection, inbox, journal, peers=peers, output=output)
    sampling = Sampling(options.metrics, options.metrics_port or "", run.plan.node_rank, journal.path)
    environ = boot.context.environ
    container = instance_name(environ)
    script = _script_watch(run, workers, attempt)
    ports, plogs = PortWatch(), FailedPlogs(workers, inbox)
    observers: list[Observer] = [
        ports,
        *(script.observers if script is not None else ()),
        plogs,
        CutFiles(run.checkpoints.outputs),
        Metrics(sampling, inbox, journal, read=output.subscribe()),
        peers,
        hangs,
    ]
    observers += [run.reset] if run.reset is not None else []
    with journal.best_effort(Semaphores.without):
        observers.append(Semaphores(inbox, journal))
    saving = _save_requests(run, attempt)
    if saving is not None:
        observers.append(saving)
        workers = [_with_variable(worker, SAVE_FILE, saving.path) for worker in workers]
    with recording(boot, workers, attempt) as recorded:
        result = supervise(
            recorded.workers,
            Limits(options.stop_timeout),
            inbox,
            journal=journal,
            environ=environ,
            container=container,
            observers=observers,
        )
        recorded.report(result, hangs.hung)
    result = result if script is None else script.result(result)
    # From here on, the paths of a rehearsal are those of the job, in causes and in the report.
    exits = (
        ended._replace(output=boot.job.with_job_paths(ended.output), plog=boot.job.with_job_paths(ended.plog))
        for ended in plogs.with_plogs(result.exits)
    )
    advice = ports.advice(result.first_failure)
    return result._replace(exits=tuple(exits), hung=hangs.hung, suspect=hangs.suspect, advice=advice)


def _script_watch(run: TrainingRun, workers: Sequence[WorkerSpec], attempt: int) -> ScriptWatch | None:
    """Returns the watch on a command that starts the ranks itself; None where ma_boot starts them."""
    if not any(worker.rank is None and worker.starts_ranks for worker in workers):
        return None
    from ma_boot.node.observe.ranks_of_scripts.script_ranks import ScriptOptions
    from ma_boot.node.observe.ranks_of_scripts.script_watch import ScriptWatch
    from ma_boot.node.scripts.rank_numbers import JobShape

    boot, options = run.boot, run.options
    nodes, world_size = boot.job.node_count, run.plan.world_size
    return ScriptWatch.of(
        ScriptOptions(options.script_ranks, options.script_rank_grace),
        own_marker(instance_name(boot.context.environ)),
        JobShape(world_size, nodes, world_size // nodes),
        attempt=attempt,
        peers=boot.peers,
        journal=boot.journal,
    )


def _reset_reason(run: TrainingRun, result: RunResult) -> str:
    """Returns why MindCluster's reset file asks for a further attempt; empty if it does not."""
    was_stopped = result.outcome != "failed" and any(ended.stopped for ended in result.exits)
    if run.reset is None or run.boot.inbox.stops or not was_stopped:
        return ""
    return run.reset.reason


def _prepare(run: TrainingRun, workers: Sequence[WorkerSpec], is_reset: bool) -> Sequence[WorkerSpec]:
    """Returns the processes of the next attempt, once their devices are free and checkpoints are restored.

    Raises `BootError`, and `Stopped` or `PeerOver` during the waits.
    """
    check = run.boot.peers.restarts.check_peers
    # The driver releases a device some time after its process has ended.
    wait_for_cards(run.boot.context, check)
    if is_reset and run.reset is not None:
        run.checkpoints.publish_saved(math.inf, check)
        run.reset.start()
    run.renew(check)
    return run.checkpoints.restore_again(workers, check)


def _with_variable(worker: WorkerSpec, name: str, value: str) -> WorkerSpec:
    return worker._replace(environ={**worker.environ, name: value})


def _save_requests(run: TrainingRun, attempt: int) -> SaveRequests | None:
    """Returns the requests to the ranks for a checkpoint; None where the nodes could not agree on a step."""
    boot, peers, options = run.boot, run.boot.peers, run.options
    journal, requests = boot.journal, None
    if peers.nodes == 1 or peers.is_connected:
        with journal.best_effort(SaveRequests.without):
            asking = SaveOptions(os.path.dirname(run.plan.workers[0].log_file), options.time_limit)
            agreement = SaveAgreement(peers.node, peers.nodes, attempt)
            requests = SaveRequests(asking, agreement, peers, inbox=boot.inbox, journal=journal)
    elif options.time_limit and not run.plan.node_rank:
        why = f"{peers.nodes} nodes need a token to agree on a step ({JOB_TOKEN})"
        journal.warn(f"no checkpoint is requested before the time limit (MABOOT_TIME_LIMIT): {why}")
    return requests


def _note_in_ledger(run: TrainingRun, result: RunResult, verdict: Verdict) -> None:
    """Notes an attempt that another one follows; the last one is noted at the end of the node."""
    ledger, restarts = run.boot.ledger, run.boot.peers.restarts
    if ledger is None:
        return
    ledger.verdict = verdict
    if verdict.again:
        from ma_boot.node.boot.start_ledger import AttemptFacts

        ledger.note(AttemptFacts(result, restarts.cause, run.checkpoints, restarts.ends))
        ledger.verdict = None


def _attempt_end(attempt: int, result: RunResult) -> AttemptEnd:
    """Returns this node's report on an attempt, by how its processes have ended."""
    failure, final = result.first_failure, ""
    if result.not_started is not None or result.left:
        not_started = result.not_started is not None
        final = Message("a process could not be started" if not_started else "a process could not be killed")
    stepped = any(last_step(ended.output) is not None for ended in result.exits)
    return AttemptEnd(
        attempt,
        final=final,
        seconds=None if failure is None else failure.seconds,
        stepped=stepped,
    )


def _decide(run: TrainingRun, result: RunResult, workers: Sequence[WorkerSpec]) -> Verdict:
    """Returns the verdict on another attempt, by node 0 if the nodes restart together; writes its event.

    First publishes the checkpoints that the processes had saved: that may complete a newer one.
    """
    boot, restarts = run.boot, run.boot.peers.restarts
    end = _attempt_end(restarts.attempt, result)
    # A full disk fails the next attempt, too.
    directories = [workers[0].cwd, *(str(output.target.root) for output in run.checkpoints.outputs)]
    devices = sum(worker.rank is not None for worker in workers)
    try:
        # A stop outranks every rule; the waits below may end before they look at signals.
        boot.inbox.check()
        # The verdict takes the end of a peer into account.
        with suppress(PeerOver):
            seconds = PUBLISH_SECONDS if restarts.is_joint else math.inf
            run.checkpoints.publish_saved(seconds, restarts.check_peers)
        problem = find_defect(boot.context, devices, directories)
        end = end._replace(whole=run.checkpoints.newest_complete(), unhealthy=problem)
        verdict = restarts.agree(end, result)
    except Stopped:
        verdict = Verdict(end.attempt, False, "the job was stopped", "stop")
    boot.journal.event("verdict", **{**end._asdict(), **verdict._asdict()})
    return verdict
