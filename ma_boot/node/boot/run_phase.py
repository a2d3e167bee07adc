"""The run phase: the node's processes under supervision, restarted after a failure if that may fix it."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable

from ma_boot.errors import BootError, ConfigError, Stopped
from ma_boot.node.boot.checkpoint_phase import CutFiles, NodeCheckpoints
from ma_boot.node.boot.job_channel import OtherNodes, PeerOver
from ma_boot.node.boot.job_restart import AttemptEnd, Failed, RestartPolicy, Verdict, decide, failure_of
from ma_boot.node.boot.node_health import wait_for_cards, what_is_broken
from ma_boot.node.boot.options import RunOptions
from ma_boot.node.boot.world import World
from ma_boot.node.launch.launch_plan import LaunchPlan, WorkerSpec
from ma_boot.node.observe.hang_detector import HangDetector
from ma_boot.node.observe.progress import has_step
from ma_boot.node.observe.reset import ResetWatch
from ma_boot.node.observe.sampler import Metrics, Sampling
from ma_boot.node.observe.save_agreement import SaveAgreement
from ma_boot.node.observe.saving import SaveOptions, SaveRequests
from ma_boot.node.observe.semaphores import Semaphores
from ma_boot.node.supervisor.supervise import Limits, Observer, supervise
from ma_boot.platform.modelarts.job import JOB_TOKEN, JobEnvironment, instance_name
from ma_boot.report.cause import cause_of, causes_of
from ma_boot.report.explain import missing_files, output_of_failed_rank
from ma_boot.report.result import RunResult
from ma_boot.wording import Message

PUBLISH_SECONDS = 60.0  # of the time in which the nodes of a job have to agree
MOST_FILES_NAMED = 3
SAVE_FILE = "MABOOT_SAVE_FILE"  # as `ma_boot.training` reads it


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


def train(
    plan: LaunchPlan,
    options: RunOptions,
    world: World,
    checkpoints: NodeCheckpoints,
    others: OtherNodes,
    reset: ResetWatch | None,
    renew: Callable[[Callable[[], None]], None],
) -> RunResult:
    """Runs the processes; after a failure that a restart may fix, or for `reset`, runs all of them again.

    Each attempt has its own log files: those of the previous one get a number. `checkpoints` prepare a
    restart, and `renew` reads the rank table again, with the check of its waits. A job of several nodes
    restarts together: all stop, node 0 decides, all start again or none.
    """
    inbox, journal = world.inbox, world.journal
    workers: Sequence[WorkerSpec] = plan.workers
    policy, earlier = RestartPolicy(options.max_restarts, options.start_seconds), list[Failed]()
    others.begin(policy)
    for attempt in itertools.count(1):
        if options.max_restarts:
            workers = [_with_variable(worker, "MABOOT_ATTEMPT", str(attempt)) for worker in workers]
        result = _observed(workers, plan, options, world, checkpoints, others, reset, attempt)
        why = reset.reason if reset is not None and not inbox.stops and _was_stopped(result) else ""
        asked = bool(why)
        if not asked:
            if result.succeeded or not options.max_restarts:
                break
            end = _attempt_end(others.attempt if others.together else attempt, result)
            end, verdict = _decided(end, result, policy, earlier, others, checkpoints, workers)
            journal.event("verdict", **{**end._asdict(), **verdict._asdict()})
            if not verdict.again:
                result = result._replace(stopped_for=others.given_up(verdict.why))
                journal.say(f"attempt {attempt}: {result.summary()}; no restart: {verdict.why}")
                break
            why = verdict.why
        journal.event("restart", attempt=attempt + 1, reason=why)
        of = "" if asked else f" of {options.max_restarts + 1}"
        journal.say(f"attempt {attempt}: {why}; starting attempt {attempt + 1}{of}")
        try:
            workers = _prepared(
                workers, world, reset if asked else None, renew, checkpoints, others.check_peers
            )
        except (BootError, PeerOver, Stopped) as error:
            journal.warn(f"no restart: {error}")
            if asked and isinstance(error, BootError):
                result = result._replace(not_started=error)
            result = result._replace(stopped_for=others.given_up(str(error)))
            break
    advice: tuple[str, ...] = ()
    with journal.only_helps("no advice on files"):
        advice = _advice_on_files(result, plan.code, plan.workers[0].cwd)
    return result._replace(advice=advice)


def _observed(
    workers: Sequence[WorkerSpec],
    plan: LaunchPlan,
    options: RunOptions,
    world: World,
    checkpoints: NodeCheckpoints,
    others: OtherNodes,
    reset: ResetWatch | None,
    attempt: int,
) -> RunResult:
    """One attempt, with all that observes it."""
    inbox, journal = world.inbox, world.journal
    hangs = HangDetector(options.hang_timeout, options.hang_action, inbox, journal, others)
    sampling = Sampling(
        options.metrics, options.metric, options.metrics_port or "", plan.node_rank, journal.path
    )
    metrics = Metrics(sampling, inbox, journal)
    observers: list[Observer] = [CutFiles(checkpoints.outputs), metrics, others, hangs]
    observers += [reset] if reset is not None else []
    with journal.only_helps(Semaphores.without):
        observers.append(Semaphores(inbox, journal))
    saving = _save_requests(plan, options, world, others, attempt)
    if saving is not None:
        observers.append(saving)
        workers = [_with_variable(worker, SAVE_FILE, saving.path) for worker in workers]
    container = instance_name(world.environ)
    result = supervise(
        workers, Limits(options.stop_timeout), inbox, journal, world.environ, container, observers
    )
    return result._replace(hung=hangs.hung, suspect=hangs.suspect)


def _was_stopped(result: RunResult) -> bool:
    """Whether the processes were stopped, none of which had failed."""
    return result.outcome != "failed" and any(ended.stopped for ended in result.exits)


def _prepared(
    workers: Sequence[WorkerSpec],
    world: World,
    reset: ResetWatch | None,
    renew: Callable[[Callable[[], None]], None],
    checkpoints: NodeCheckpoints,
    check: Callable[[], None],
) -> Sequence[WorkerSpec]:
    """The processes of the next attempt, once their cards are free.

    Raises `BootError`, and what `check` raises, which is called during the waits.
    """
    wait_for_cards(world, check)
    if reset is not None:
        checkpoints.publish(math.inf, check)
        reset.start()
    renew(check)
    return checkpoints.again(workers, check)


def _with_variable(worker: WorkerSpec, name: str, value: str) -> WorkerSpec:
    return worker._replace(environ={**worker.environ, name: value})


def _save_requests(
    plan: LaunchPlan, options: RunOptions, world: World, others: OtherNodes, attempt: int
) -> SaveRequests | None:
    """The way to ask the ranks for a checkpoint; None where they could not agree on a step."""
    journal, requests = world.journal, None
    if others.nodes == 1 or others.talks:
        with journal.only_helps(SaveRequests.without):
            asking = SaveOptions(os.path.dirname(plan.workers[0].log_file), options.time_limit)
            agreement = SaveAgreement(others.node, others.nodes, attempt)
            requests = SaveRequests(asking, agreement, others, world.inbox, journal)
    elif options.time_limit and not plan.node_rank:
        why = f"{others.nodes} nodes need a token to agree on a step ({JOB_TOKEN})"
        journal.warn(f"no checkpoint is requested before the time limit (MABOOT_TIME_LIMIT): {why}")
    return requests


def _attempt_end(attempt: int, result: RunResult) -> AttemptEnd:
    """What this node says of an attempt by how its processes have ended."""
    failure, final = result.first_failure, ""
    if result.not_started is not None or result.left:
        not_started = result.not_started is not None
        final = Message("a process could not be started" if not_started else "a process could not be killed")
    stepped = any(has_step(ended.output) for ended in result.exits)
    return AttemptEnd(
        attempt,
        final=final,
        seconds=None if failure is None else failure.seconds,
        stepped=stepped,
    )


def _decided(
    end: AttemptEnd,
    result: RunResult,
    policy: RestartPolicy,
    earlier: list[Failed],
    others: OtherNodes,
    checkpoints: NodeCheckpoints,
    workers: Sequence[WorkerSpec],
) -> tuple[AttemptEnd, Verdict]:
    """Whether another attempt follows: as node 0 decides where the job restarts together.

    Before, what the processes had saved is published: that may make a newer set whole.
    """
    directories = [workers[0].cwd, *(str(output.root) for output in checkpoints.outputs)]
    try:
        with suppress(PeerOver):  # the decision takes note of it
            checkpoints.publish(PUBLISH_SECONDS if others.together else math.inf, others.check_peers)
        problem = what_is_broken(
            others.world, sum(worker.rank is not None for worker in workers), directories
        )
        end = end._replace(whole=checkpoints.whole(), unhealthy=problem)
        if others.together:
            return end, others.agreed(end, result)
    except Stopped:
        return end, Verdict(end.attempt, False, "the job was stopped", "stop")
    cause, ends = cause_of(causes_of(result.exits, others.node, 0.0)), {others.node: end}
    verdict = decide(end.attempt, ends, policy, cause, earlier)
    earlier.append(failure_of(ends, cause))
    return end, verdict


def _advice_on_files(run: RunResult, code: str | None, cwd: str) -> tuple[str, ...]:
    """What to do if the process that failed first did not find a file that is beside its script in `code`."""
    failure = run.first_failure
    if failure is None or code is None or os.path.realpath(code) == os.path.realpath(cwd):
        return ()
    named = missing_files(output_of_failed_rank(failure.output))
    names = (os.path.relpath(name, cwd) if name.startswith(cwd + os.sep) else name for name in named)
    beside = [name for name in names if not os.path.isabs(name) and os.path.exists(os.path.join(code, name))]
    return tuple(
        Message.of(
            "{} is beside the script in {}, but was looked for in the working directory {}: add --workdir "
            "code, or open it by the path of the script (__file__)",
            name,
            code,
            cwd,
        )
        for name in beside[:MOST_FILES_NAMED]
    )
