"""The options of `ma_boot run`: a module for each topic, in the order of the help. Pure.

Words that other rooms know, such as the kinds of rendezvous, are spelled out here: loading those rooms would
slow down `--help` and completion. A test compares them.
"""

from ma_boot.cli.options.option import (
    DIR as DIR,
    FILE as FILE,
    LOCAL as LOCAL,
    SECONDS as SECONDS,
    SECONDS_ABOVE_0 as SECONDS_ABOVE_0,
    Number as Number,
    RunOption as RunOption,
    RunVariable as RunVariable,
    Topic as Topic,
    Whole as Whole,
    age as age,
    by_variable as by_variable,
    did_you_mean as did_you_mean,
    directories as directories,
    files as files,
    from_environment as from_environment,
    misfits as misfits,
    misplaced_options as misplaced_options,
    of_job as of_job,
    unknown_variables as unknown_variables,
)
from ma_boot.cli.options.rehearsing import (
    CONTAINERS,
    FAULTS,
    PLAN_TOPIC,
    REHEARSAL,
    REHEARSAL_DIR as REHEARSAL_DIR,
)
from ma_boot.cli.options.training import (
    ENVIRONMENT,
    OBS,
    PLATFORMS as PLATFORMS,
    PRODUCT as PRODUCT,
    RANK_ORDER as RANK_ORDER,
    RANKS,
    RUNNING,
    START,
    StoreRequest as StoreRequest,
    store_command as store_command,
)

TOPICS = (ENVIRONMENT, OBS, RANKS, START, RUNNING, PLAN_TOPIC, REHEARSAL, FAULTS, CONTAINERS)
