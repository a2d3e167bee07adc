"""Options of the command `ma_boot run` itself: its mode, and how COMMAND is to be read."""

from __future__ import annotations

from typing import NamedTuple

from ma_boot.node.option import FILE, Requirement, option, option_group
from ma_boot.node.rehearsal_options import LOCAL, PROCESS

PLAN_OR_LOCAL = Requirement(
    "plan", True, "only for plans and rehearsals; add --plan or --local.", either="local"
)


@option_group
class CommandOptions(NamedTuple):
    """Boot, plan or rehearsal, and the form of COMMAND."""

    as_module: bool = option(
        False, "COMMAND is a Python module.", flags=("-m",), topic="environment", common=True
    )
    plan: bool = option(
        False, "Print what would be started, and exit.", topic="plan", common=True, requires=(PROCESS,)
    )
    as_json: bool = option(
        False,
        "Print the plan, or the result of a rehearsal, as JSON; other lines go to stderr.",
        flags=("--json",),
        topic="plan",
        requires=(PLAN_OR_LOCAL,),
    )
    local: bool = option(False, "Rehearse the job on this machine.", topic="rehearsal", common=True)
    verbose: bool = option(
        False,
        "Print everything that the nodes print.",
        flags=("-v", "--verbose"),
        topic="rehearsal",
        requires=(LOCAL,),
    )
    quiet: bool = option(
        False,
        "Print the training's lines, and one line at the end.",
        flags=("-q", "--quiet"),
        topic="rehearsal",
        requires=(LOCAL,),
    )
    job: str | None = option(
        None, "The job to rehearse: a job file (job.yaml).", kind=FILE, topic="rehearsal", requires=(LOCAL,)
    )
