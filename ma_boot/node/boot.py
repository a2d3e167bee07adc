"""The story: how one node of a job goes from the boot command to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from ma_boot.errors import BootError, Stopped
from ma_boot.launch import LaunchPlan
from ma_boot.modelarts import JobEnvironment, call_post_stop, instance_name, read_job, start_slogd
from ma_boot.node import launch_phase as steps
from ma_boot.node import rank_table_phase as ranks
from ma_boot.node.environment_phase import set_up
from ma_boot.node.request import BootRequest
from ma_boot.node.run_phase import check_restarts, train
from ma_boot.node.transfers import NO_MAPPING, bring_home, inputs_arriving, outputs_leaving, part_of
from ma_boot.node.world import World
from ma_boot.processes import stop_leftovers
from ma_boot.reporting import Ending


def boot(request: BootRequest, world: World) -> Ending:
    """Boots this node of the job: the sequence of the design, section 3.

    Every end comes back as an `Ending`, also the failed and the stopped ones; only a defect of ma_boot
    raises. From the moment that the mapping is known, the outputs are brought home whatever happens.
    """
    journal, inbox, base = world.journal, world.inbox, Path(world.cwd)
    job: Optional[JobEnvironment] = None
    mapping, store, placement, run, error = NO_MAPPING, None, None, None, None
    try:
        with journal.phase("job") as phase:
            job = read_job(world.environ, world.hostname)
            journal.open(Path(job.events_file), job.node_rank)
            journal.event("job", **job.event())
            steps.forget_earlier_failure(job)
            check_restarts(request.restarts, job)
            mapping, store = steps.read_mapping_and_store(request, world, job)
            steps.check_container(request, world, job)
            steps.say_channels(world)
            phase.detail = job.said()
        with journal.phase("environment") as phase:
            training = steps.environment_of(request, world, job)
            steps.check_command(request, world, job, training, mapping)
            training = set_up(request, world, job, training)
            phase.detail = training.origin
        arriving = inputs_arriving(mapping.inputs, base, store, journal, inbox, part_of(job))
        with arriving as inputs, journal.phase("rank table") as phase:
            placement, table = ranks.find_ranks(request, world, job, inputs.check)
            ranks.write_table(placement, table, job)
            placement = ranks.by_route(request, world, job, training, placement, table)
            phase.detail = ranks.said_ranks(placement)
        with journal.phase("launch") as phase:
            plan = steps.plan_node(request, world, job, training, placement)
            container = instance_name(world.environ)
            stop_leftovers(container, request.stop_timeout, inbox, journal.say, journal.event)
            steps.prepare(plan, mapping)
            start_slogd(world.environ, journal.say)
            phase.detail = f"{len(plan.workers)} processes, rendezvous {request.rendezvous}"
            inbox.check()
        leaving = outputs_leaving(mapping.outputs, base, store, journal, inbox)
        with leaving, journal.phase("run") as phase:
            run = train(plan.workers, world, request.limits, request.restarts)
            phase.outcome, phase.detail = run.outcome, run.summary()
    except (BootError, Stopped) as caught:
        error = caught
    well = run is not None and run.succeeded and not inbox.stops
    whole = well and placement is not None and 0 in placement.ranks
    lost = bring_home(mapping.outputs, base, store, journal, inbox, request.upload_timeout, whole)
    call_post_stop(world.environ, journal.say)
    return Ending.of(job, inbox.stops, error, run, lost)


def plan_only(request: BootRequest, world: World) -> LaunchPlan:
    """What `boot` would start: waits for the rank table as it does; moves, writes and starts nothing.

    Raises `BootError` or `Stopped`.
    """
    job = read_job(world.environ, world.hostname)
    steps.read_mapping(request, world, job)
    training = steps.environment_of(request, world, job)
    placement, _ = ranks.find_ranks(request, world, job, lambda: None)
    return steps.plan_node(request, world, job, training, placement)
