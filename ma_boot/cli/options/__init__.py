"""The options of `ma_boot run`: a module for each topic, in the order of the help.

Words that other rooms know, such as the kinds of rendezvous, are spelled out here: loading those rooms would
slow down `--help` and completion. A test compares them.
"""

from ma_boot.cli.options.advice import did_you_mean, misplaced_options, unknown_variables
from ma_boot.cli.options.completion import DIR, FILE, directories, files
from ma_boot.cli.options.containers import CONTAINERS
from ma_boot.cli.options.environment import ENVIRONMENT
from ma_boot.cli.options.faults import FAULTS
from ma_boot.cli.options.obs import OBS, store_options
from ma_boot.cli.options.option import (
    SECONDS,
    SECONDS_ABOVE_0,
    OptionProblem,
    RunOption,
    Topic,
    age,
    from_environment,
    misfits,
    of_job,
)
from ma_boot.cli.options.plan import PLAN_TOPIC
from ma_boot.cli.options.ranks import PRODUCT, RANK_ORDER, RANKS
from ma_boot.cli.options.rehearsal import REHEARSAL, REHEARSAL_DIR
from ma_boot.cli.options.running import RUNNING
from ma_boot.cli.options.start import PLATFORMS, START

__all__ = [
    "DIR",
    "FILE",
    "PLATFORMS",
    "PRODUCT",
    "RANK_ORDER",
    "REHEARSAL_DIR",
    "SECONDS",
    "SECONDS_ABOVE_0",
    "TOPICS",
    "OptionProblem",
    "RunOption",
    "Topic",
    "age",
    "did_you_mean",
    "directories",
    "files",
    "from_environment",
    "misfits",
    "misplaced_options",
    "of_job",
    "store_options",
    "unknown_variables",
]

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
