"""What `ma_boot run` was asked for, carried out: one node of a job, a rehearsal, or a plan."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

from ma_boot.errors import ExitCode
from ma_boot.launch import described, plan_text
from ma_boot.node.boot import boot, plan_only
from ma_boot.node.request import BootRequest
from ma_boot.node.world import World
from ma_boot.processes import SignalInbox, adopt_orphans, forbid_core_files
from ma_boot.reporting import (
    Console,
    Ending,
    Journal,
    end_event,
    exit_code,
    is_interactive,
    print_lines,
    report_lines,
    write_failure,
)


def boot_here(request: BootRequest, environ: Mapping[str, str]) -> int:
    """Boots this node of a job; returns its exit code."""
    with SignalInbox() as inbox, Console(interactive=is_interactive(environ)) as console:
        adopt_orphans()
        forbid_core_files()
        world = _world(environ, inbox, console)
        ending = boot(request, world)
        code = exit_code(ending)
        world.journal.event("end", **end_event(ending))
        write_failure(ending)
        page = _page_here(ending, world)
        world.journal.say("\n".join(report_lines(ending, world.journal.phases, page)))
        world.journal.close()
    return code


def _page_here(ending: Ending, world: World) -> Optional[str]:
    """The node's page, if there is one; in time, and without a say in how the job ended."""
    if ending.job is None:
        return None
    from ma_boot.reporting.page import write_in_time  # only needed at the end

    events, page = Path(ending.job.events_file), Path(ending.job.page_file)
    made = write_in_time([events], page, world.environ, world.inbox, world.journal.say)
    return str(page) if made else None


def print_plan(request: BootRequest, options: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Prints what would be started: here, or on each node of a rehearsal."""
    with SignalInbox() as inbox, Console(2) as console:
        world = _world(environ, inbox, console)
        if options["local"]:
            from ma_boot.rehearsal.rehearse import plan_rehearsal
            from ma_boot.rehearsal.requested import rehearsal_of  # a job on the platform needs none of it

            plans = plan_rehearsal(rehearsal_of(request, options), world)
        else:
            plans = [described(plan_only(request, world), environ)]
    print_lines(_as_json(plans) if options["as_json"] else plan_text(plans))
    return ExitCode.SUCCESS


def _as_json(plans: Sequence[Dict[str, Any]]) -> str:
    return json.dumps({"nodes": plans}, indent=2, ensure_ascii=False)


def rehearse_here(request: BootRequest, options: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Rehearses a job in processes, or every fault of the catalogue; returns the exit code."""
    from ma_boot.rehearsal.faults import ALL_FAULTS
    from ma_boot.rehearsal.rehearse import rehearse
    from ma_boot.rehearsal.requested import rehearsal_of  # a job on the platform needs none of it

    rehearsal = rehearsal_of(request, options)
    with SignalInbox() as inbox, Console(interactive=is_interactive(environ)) as console:
        world = _world(environ, inbox, console)
        adopt_orphans()
        if options["fault"] == ALL_FAULTS:
            from ma_boot.rehearsal.catalogue_run import run_all

            return run_all(rehearsal, world)
        return rehearse(rehearsal, world)


def rehearse_in_containers(
    request: BootRequest, options: Mapping[str, Any], environ: Mapping[str, str]
) -> int:
    """Rehearses a job in containers; returns the exit code."""
    from ma_boot.rehearsal import in_containers
    from ma_boot.rehearsal.requested import (  # a job on the platform needs none of it
        containers_of,
        rehearsal_of,
    )

    rehearsal, containers = rehearsal_of(request, options), containers_of(options)
    with SignalInbox() as inbox, Console(interactive=is_interactive(environ)) as console:
        adopt_orphans()
        return in_containers.rehearse_in_containers(rehearsal, containers, _world(environ, inbox, console))


def _world(environ: Mapping[str, str], inbox: SignalInbox, console: Console) -> World:
    return World(environ, os.uname().nodename, os.getcwd(), inbox, console, Journal(console))
