"""The options of `ma_boot run`: a module for each topic, in the order of the help.

Words that other rooms know, such as the kinds of rendezvous, are spelled out here: loading those rooms would
slow down `--help` and completion. A test compares them.
"""

from ma_boot.cli.options.advice import (
    did_you_mean as did_you_mean,
    misplaced_options as misplaced_options,
    unknown_variables as unknown_variables,
)
from ma_boot.cli.options.completion import (
    DIR as DIR,
    FILE as FILE,
    directories as directories,
    files as files,
)
from ma_boot.cli.options.containers import CONTAINERS
from ma_boot.cli.options.environment import ENVIRONMENT
from ma_boot.cli.options.faults import FAULTS
from ma_boot.cli.options.obs import OBS, store_options as store_options
from ma_boot.cli.options.option import (
    LOCAL as LOCAL,
    SECONDS as SECONDS,
    SECONDS_ABOVE_0 as SECONDS_ABOVE_0,
    OptionProblem as OptionProblem,
    RunOption as RunOption,
    RunVariable as RunVariable,
    Topic as Topic,
    age as age,
    by_variable as by_variable,
    from_environment as from_environment,
    misfits as misfits,
    of_job as of_job,
)
from ma_boot.cli.options.plan import PLAN_TOPIC
from ma_boot.cli.options.ranks import PRODUCT as PRODUCT, RANK_ORDER as RANK_ORDER, RANKS
from ma_boot.cli.options.rehearsal import REHEARSAL, REHEARSAL_DIR as REHEARSAL_DIR
from ma_boot.cli.options.running import RUNNING
from ma_boot.cli.options.start import PLATFORMS as PLATFORMS, START

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
