"""The options of `ma_boot run`: a module for each topic, in the order of the help."""

from ma_boot.cli.options.containers import CONTAINERS
from ma_boot.cli.options.environment import ENVIRONMENT
from ma_boot.cli.options.faults import FAULTS
from ma_boot.cli.options.obs import OBS
from ma_boot.cli.options.option import RunOption, Topic, misfits
from ma_boot.cli.options.plan import PLAN_TOPIC
from ma_boot.cli.options.ranks import RANKS
from ma_boot.cli.options.rehearsal import REHEARSAL
from ma_boot.cli.options.running import RUNNING
from ma_boot.cli.options.start import START

__all__ = ["TOPICS", "RunOption", "Topic", "misfits"]

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
