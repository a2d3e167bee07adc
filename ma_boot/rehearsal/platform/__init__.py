"""What ModelArts provides to the nodes of a job: directories, variables, code, rank table, the job form."""

from ma_boot.rehearsal.platform.code_directory import (
    NOT_CODE,
    code_directory,
    code_files,
    command_in,
    copy_code,
)
from ma_boot.rehearsal.platform.job_form import (
    FormChannel,
    channel_arguments,
    channel_variables,
    parse_channels,
)
from ma_boot.rehearsal.platform.simulated_job import (
    PRODUCT,
    SIMULATED,
    SimulatedJob,
    StartCounts,
    StartedJob,
    at_start,
    first_start,
    node_environment,
    rank_table,
    rescheduled,
    restarted,
)
from ma_boot.rehearsal.platform.table_writer import write_tables
from ma_boot.rehearsal.platform.table_writes import TableWrite, renewed, stages, writes

__all__ = [
    "NOT_CODE",
    "PRODUCT",
    "SIMULATED",
    "FormChannel",
    "SimulatedJob",
    "StartCounts",
    "StartedJob",
    "TableWrite",
    "at_start",
    "channel_arguments",
    "channel_variables",
    "code_directory",
    "code_files",
    "command_in",
    "copy_code",
    "first_start",
    "node_environment",
    "parse_channels",
    "rank_table",
    "renewed",
    "rescheduled",
    "restarted",
    "stages",
    "write_tables",
    "writes",
]
