"""The options of `ma_boot run`: a module for each topic, in the order of the help."""

from ma_boot.options.containers import CONTAINERS
from ma_boot.options.environment import ENVIRONMENT
from ma_boot.options.faults import FAULTS
from ma_boot.options.obs import OBS
from ma_boot.options.option import RunOption, Topic, misfits
from ma_boot.options.plan import PLAN_TOPIC
from ma_boot.options.ranks import RANKS
from ma_boot.options.rehearsal import REHEARSAL
from ma_boot.options.running import RUNNING
from ma_boot.options.start import START

__all__ = ["TOPICS", "RunOption", "Topic", "misfits"]

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
