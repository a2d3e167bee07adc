"""The option for the faults of a rehearsal, and a description of their syntax."""

from __future__ import annotations

from typing import List

import click

from ma_boot.cli.options.option import LOCAL, PROCESS, RunOption, Topic


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> List[str]:
    from ma_boot.rehearsal.faults import KINDS  # needed for completion only

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
            requires=(LOCAL, PROCESS),
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
              absent node=N
  rank table  table-late for=TIME, table-lacks pod=N, table-torn,
              table-empty, table-regresses, table-stale, table-rewritten:
              [for=TIME] [node=N]; table-never, table-wrong: [node=N]
  OBS         obs-403, obs-404, obs-500, obs-503, obs-expired, obs-reset,
              obs-cut, obs-corrupt, obs-slow, obs-stall, obs-hang:
              [method=GET] [key=PART] [times=N]; require --obs-root
  disk        disk-full node=N path=DIR size=SIZE

Times are written 5s, 200ms or 2m, sizes 512k, 8m or 1g. The phases are job, environment, inputs, rank-table,
launch, run and outputs.""",
)
