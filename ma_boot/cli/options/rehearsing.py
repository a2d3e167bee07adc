"""The options of plans and rehearsals: the simulated job, its faults and containers."""

from __future__ import annotations

from functools import partial

import click

from ma_boot.cli.options.option import (
    DIR,
    DOCKER,
    FILE,
    LOCAL,
    PLAN,
    PROCESS,
    SECONDS,
    RunOption,
    RunVariable,
    Topic,
    Whole,
)

PLAN_TOPIC = Topic(
    "plan",
    "check the container, and show what would be started",
    ("ma_boot --preflight train.py", "ma_boot --local --nodes 2 --devices-per-node 8 --plan --json train.py"),
    (
        RunOption(
            "--preflight", is_flag=True, common=True, help="Run the quick checks of ma_boot doctor first."
        ),
        RunOption(
            "--plan",
            is_flag=True,
            requires=(PROCESS,),
            common=True,
            help="Print what would be started, and exit.",
        ),
        RunOption("--json", "as_json", is_flag=True, requires=(PLAN,), help="Print the plan as JSON."),
    ),
    "See `ma_boot doctor --help` for all checks.",
)


_rehearsed = partial(RunOption, requires=(LOCAL,))
_rehearsed_variable = partial(RunVariable, requires=(LOCAL,))
_contained = partial(RunOption, requires=(LOCAL, DOCKER))
_contained_variable = partial(RunVariable, requires=(LOCAL, DOCKER))
REHEARSAL_DIR = "ma_boot-rehearsal"
REHEARSAL = Topic(
    "rehearsal",
    "the job on this machine, without the platform",
    (
        "ma_boot --local --nodes 2 --devices-per-node 4 train.py",
        "ma_boot --local --job job.yaml",
        "ma_boot --local --obs-root obs --input data_url=obs://bucket/data/ train.py",
    ),
    (
        RunOption("--local", is_flag=True, common=True, help="Rehearse the job on this machine."),
        _rehearsed(
            "-v",
            "--verbose",
            is_flag=True,
            help="Print everything that the nodes print.",
        ),
        _rehearsed("--job", **FILE, help="The job to rehearse: a job file (job.yaml)."),
        _rehearsed(
            "--nodes",
            metavar="N",
            type=Whole(1, 1024),
            default=1,
            common=True,
            help="Number of nodes of a rehearsal.",
        ),
        _rehearsed(
            "--devices-per-node",
            metavar="N",
            type=Whole(1, 16),
            default=1,
            common=True,
            help="Cards per node of a rehearsal.",
        ),
        _rehearsed_variable(
            "--rank-table-delay", **SECONDS, default=0.5, help="Delay until the rank table is completed."
        ),
        _rehearsed("--code-dir", **DIR, help="The job's code directory; default: COMMAND's."),
        _rehearsed_variable(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            help="Parts of the code not to copy to the nodes, as in .gitignore.",
        ),
        _rehearsed("--rehearsal-dir", **DIR, default=REHEARSAL_DIR, help="Directory of the simulated nodes."),
        _rehearsed_variable(
            "--keep-rehearsals",
            type=Whole(1),
            default=20,
            metavar="N",
            help="Keep the N newest rehearsals, and remove older ones.",
        ),
        _rehearsed(
            "--input",
            multiple=True,
            metavar="NAME=OBS",
            help="An input of the job form, e.g. data_url=obs://bucket/data/.",
        ),
        _rehearsed("--output", multiple=True, metavar="NAME=OBS", help="An output of the job form."),
        _rehearsed("--append-args", metavar="ARGS", help="Arguments that the platform appends to COMMAND."),
        RunOption(
            "--sandbox",
            type=click.Choice(["bwrap"]),
            requires=(LOCAL, PROCESS),
            help="Mount /home/ma-user, /cache and /user/config with bubblewrap.",
        ),
    ),
)


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ma_boot.desk.rehearsal.faults import KINDS  # needed for completion only

    return [kind for kind in KINDS if kind.startswith(incomplete)]


FAULTS = Topic(
    "faults",
    "faults to inject into a rehearsal",
    (
        "ma_boot --local --devices-per-node 4 --fault 'kill rank=3 at=5s' train.py",
        "ma_boot --local --nodes 2 --fault 'lost node=1 phase=run' train.py",
    ),
    (
        RunOption(
            "--fault",
            multiple=True,
            metavar="FAULT",
            requires=(LOCAL,),
            shell_complete=_kinds,
            help="A fault to inject; may be repeated.",
        ),
    ),
    """\
FAULT is a kind followed by KEY=VALUE pairs, separated by spaces.

\b
  a rank      kill [signal=SEGV], exit [code=N], hang [for=TIME],
              flood [size=SIZE]: rank=R, and at=TIME or line=K of its output
  a node      lost, stop [grace=TIME]: node=N; rescheduled [node=N];
              restart [signal=TERM]: and at=TIME or phase=NAME;
              absent node=N; bad-card node=N [at=TIME]
  rank table  table-late for=TIME, table-lacks pod=N, table-torn,
              table-empty, table-regresses, table-stale, table-rewritten:
              [for=TIME] [node=N]; table-never, table-wrong: [node=N]
  OBS         obs-403, obs-404, obs-500, obs-503, obs-expired, obs-reset,
              obs-cut, obs-corrupt, obs-slow, obs-stall, obs-hang:
              [method=GET] [key=PART] [times=N]; require --obs-root
  disk        disk-full node=N path=DIR size=SIZE

With --runner docker: kill, hang, lost, stop, absent and all of the rank table. The others need processes of
this machine. A rank that raises, or needs more than MABOOT_MEMORY, needs no fault.

Times are written 5s, 200ms or 2m, sizes 512k, 8m or 1g. The phases are job, environment, inputs, rank-table,
launch, run and outputs.""",
)


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    power = {"k": 10, "m": 20, "g": 30}.get(value[-1:].lower(), 0)
    number = value[:-1] if power else value
    if number.isascii() and number.isdecimal():
        return int(number) << power
    raise click.BadParameter(f"found {value!r}, expected a number of bytes, or one with k, m or g (512m)")


CONTAINERS = Topic(
    "containers",
    "rehearsals in containers of the job's image",
    (
        "ma_boot --local --runner docker --image my-training --nodes 2 train.py",
        "ma_boot --local --runner docker --image my-training --obs-root obs train.py",
    ),
    (
        _rehearsed(
            "--runner",
            type=click.Choice(["process", "docker"]),
            default="process",
            help="Run each node as a process, or as a container of --image.",
        ),
        _contained("--image", metavar="IMAGE", help="The job's image."),
        _contained_variable(
            "--memory", callback=_bytes, metavar="SIZE", help="Memory limit of a node, e.g. 512m or 64g."
        ),
        _contained_variable(
            "--shm-size", callback=_bytes, metavar="SIZE", default="2g", help="Size of a node's /dev/shm."
        ),
        _contained_variable(
            "--boot-shell",
            type=click.Choice(["none", "sh", "bash"]),
            default="none",
            help="Start the boot command with a shell, as the platform may do.",
        ),
        _contained_variable(
            "--boot-prefix",
            metavar="TEXT",
            help="Text before `ma_boot` in the boot command, e.g. 'cd code && exec'.",
        ),
        _contained_variable("--keep", is_flag=True, help="Keep the containers afterwards."),
    ),
)
