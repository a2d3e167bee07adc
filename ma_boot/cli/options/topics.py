"""The options of `ma_boot run` by topic, in the order of the help."""

from __future__ import annotations

from typing import NamedTuple

import click

from ma_boot.cli.options.command import CommandOptions
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.node.boot.options import EnvironmentOptions, JobOptions, RankOptions, RunOptions
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.option import options_in
from ma_boot.node.rehearsal_options import ContainerOptions, RehearsalOptions
from ma_boot.node.transfers.options import TransferOptions

# Within a topic, the options are in the order of these groups and of their fields.
_GROUPS = (
    *(JobOptions, CommandOptions, EnvironmentOptions, TransferOptions, RankOptions, LaunchOptions),
    *(RunOptions, RehearsalOptions, ContainerOptions),
)
_OPTIONS = tuple(DeclaredOption(declared=declared) for group in _GROUPS for declared in options_in(group))


class Topic(NamedTuple):
    """Options that belong together, shown by `ma_boot --help NAME`.

    `about` is a phrase, `examples` are command lines, `more` is a text below the options.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    more: str = ""

    @property
    def options(self) -> tuple[DeclaredOption, ...]:
        """Its options, those that only a variable sets among them."""
        return tuple(option for option in _OPTIONS if option.declared.topic == self.name)

    def write(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes its page of the help."""
        with formatter.section(self.about[0].upper() + self.about[1:]):
            records = [option.get_help_record(ctx) for option in self.options]
            formatter.write_dl([record for record in records if record is not None], col_max=26)
        if self.more:
            formatter.write_paragraph()
            formatter.write_text(self.more)
        with formatter.section("Example"):
            for line in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


TOPICS = (
    Topic(
        "environment",
        "Python, conda environment and packages of the training",
        (
            "ma_boot --conda-env torch --requirements pip-requirements.txt train.py",
            "ma_boot --python /opt/python/bin/python3 -m package.train --epochs 90",
        ),
    ),
    Topic(
        "obs",
        "inputs and outputs of the training in OBS",
        (
            "ma_boot --path-mapping path_mapping_config.py train.py",
            "ma_boot --path-mapping path_mapping_config.py --upload-timeout 1800 train.py",
        ),
        "See `ma_boot sync --help` for transfers without a job.",
    ),
    Topic(
        "ranks",
        "ranks of a node and their devices",
        (
            "ma_boot --devices 1,2 train.py",
            "ma_boot --rank-table-file hccl_16p.json --rank-size 16 --rank-start 8 train.py",
        ),
        "See `ma_boot rank-table --help` for working with rank tables without a job.",
    ),
    Topic(
        "start",
        "how the processes start and find each other",
        (
            "ma_boot --rendezvous mindspore --bind-cores numa train.py",
            "ma_boot --per-node torchrun --nproc_per_node '$MABOOT_NPROC' train.py",
        ),
    ),
    Topic(
        "running",
        "output, hangs and stopping of the processes",
        (
            "ma_boot --tee first train.py",
            "ma_boot --hang-timeout 1800 --hang-action stop train.py",
        ),
    ),
    Topic(
        "restarts",
        "restarts after failures, in place and by the platform",
        (
            "ma_boot --max-restarts 3 train.py",
            "ma_boot --max-restarts 3 --retry-on 'lease .* expired' train.py",
        ),
    ),
    Topic(
        "plan",
        "check the container, and show what would be started",
        (
            "ma_boot --preflight train.py",
            "ma_boot --local --nodes 2 --devices-per-node 8 --plan --json train.py",
        ),
        "See `ma_boot doctor --help` for all checks.",
    ),
    Topic(
        "rehearsal",
        "the job on this machine, without the platform",
        (
            "ma_boot --local --nodes 2 --devices-per-node 4 train.py",
            "ma_boot --local --job job.yaml",
            "ma_boot --local --obs-root obs --input data_url=obs://bucket/data/ train.py",
        ),
    ),
    Topic(
        "faults",
        "faults to inject into a rehearsal",
        (
            "ma_boot --local --devices-per-node 4 --fault 'kill rank=3 at=5s' train.py",
            "ma_boot --local --nodes 2 --fault 'lost node=1 phase=run' train.py",
        ),
        """\
FAULT is a kind followed by KEY=VALUE pairs, separated by spaces.

\b
  a rank      kill [signal=SEGV], raise, hang [for=TIME]: rank=R,
              and at=TIME or line=K of its output
  a node      lost, stop [grace=TIME]: node=N; rescheduled [node=N];
              restart [signal=TERM]: and at=TIME or phase=NAME,
              or times=N after failures of the job's own;
              absent node=N; bad-card node=N [at=TIME]
  rank table  table-late for=TIME, table-lacks pod=N [for=TIME]: [node=N]
  OBS         obs-503, obs-expired, obs-slow, obs-hang: [method=GET]
              [key=PART] [times=N]; require --obs-root
  disk        disk-full node=N path=DIR size=SIZE

With --runner docker: kill, raise, hang, lost, stop, absent and those of the rank table. The others need
processes of this machine. A node that is out of memory needs no fault: set MABOOT_MEMORY too small.

Times are written 5s, 200ms or 2m, sizes 512k, 8m or 1g. The phases are job, environment, inputs, rank-table,
launch, run and outputs.""",
    ),
    Topic(
        "containers",
        "rehearsals in containers of the job's image",
        (
            "ma_boot --local --runner docker --image my-training --nodes 2 train.py",
            "ma_boot --local --runner docker --image my-training --obs-root obs train.py",
        ),
    ),
)
