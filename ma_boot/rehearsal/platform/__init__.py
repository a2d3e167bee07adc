"""What ModelArts provides to the nodes of a job: directories, variables, code, rank table, the job form."""

from ma_boot.rehearsal.platform.code_directory import (
    NOT_CODE as NOT_CODE,
    code_directory as code_directory,
    code_files as code_files,
    command_in as command_in,
    copy_code as copy_code,
    mark_as_obs as mark_as_obs,
    remove_copy as remove_copy,
)
from ma_boot.rehearsal.platform.simulated_job import (
    CODE_DIRECTORY as CODE_DIRECTORY,
    DIRECTORIES as DIRECTORIES,
    PRODUCT as PRODUCT,
    SIMULATED as SIMULATED,
    FormChannel as FormChannel,
    SimulatedJob as SimulatedJob,
    StartCounts as StartCounts,
    channel_arguments as channel_arguments,
    channel_variables as channel_variables,
    first_start as first_start,
    node_environment as node_environment,
    parse_channels as parse_channels,
    rank_table as rank_table,
    rescheduled as rescheduled,
    restarted as restarted,
)
from ma_boot.rehearsal.platform.table_writes import (
    TableWrite as TableWrite,
    renewed as renewed,
    stages as stages,
    writes as writes,
)
