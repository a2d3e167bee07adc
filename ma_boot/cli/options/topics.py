"""All options of `ma_boot run` by topic, in the order of the help. Pure."""

from ma_boot.cli.options.rehearsing import CONTAINERS, FAULTS, PLAN_TOPIC, REHEARSAL
from ma_boot.cli.options.training import ENVIRONMENT, OBS, RANKS, RUNNING, START

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
