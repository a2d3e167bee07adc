"""What a run reports: output, events, and how it ended."""

from ma_boot.reporting.cause import (
    ENDED_EARLY as ENDED_EARLY,
    LOST_PEER as LOST_PEER,
    MOST_FAILURES as MOST_FAILURES,
    OWN as OWN,
    RAISED as RAISED,
    Cause as Cause,
    cause_of as cause_of,
    causes_of as causes_of,
    order as order,
    readable as readable,
)
from ma_boot.reporting.console import (
    Console as Console,
    Show as Show,
    has_colours as has_colours,
    is_interactive as is_interactive,
    print_bytes as print_bytes,
    print_lines as print_lines,
    rendered as rendered,
)
from ma_boot.reporting.exit_report import (
    EXIT_CODE as EXIT_CODE,
    Ending as Ending,
    ExitStatus as ExitStatus,
    end_event as end_event,
    exit_status as exit_status,
    last_lines as last_lines,
    report_lines as report_lines,
    write_failure as write_failure,
)
from ma_boot.reporting.explain import (
    KILLED as KILLED,
    last_words as last_words,
    meaning_of as meaning_of,
    missing_files as missing_files,
    out_of_memory as out_of_memory,
    output_of_failed_rank as output_of_failed_rank,
    own_words as own_words,
    tells_of_sigkill as tells_of_sigkill,
    without_escapes as without_escapes,
)
from ma_boot.reporting.files import keep_earlier as keep_earlier, write_atomically as write_atomically
from ma_boot.reporting.hints import hints_for as hints_for, with_store_hint as with_store_hint
from ma_boot.reporting.journal import Journal as Journal
from ma_boot.reporting.log_writer import LogFile as LogFile
from ma_boot.reporting.result import (
    CAUSE as CAUSE,
    FOLLOWED as FOLLOWED,
    STOPPED as STOPPED,
    WELL as WELL,
    HangSuspect as HangSuspect,
    JobFailure as JobFailure,
    RunResult as RunResult,
    WorkerExit as WorkerExit,
    node_and_rank as node_and_rank,
    role_beside_cause as role_beside_cause,
)
