"""What a run reports: output, events, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ma_boot.reporting.console import Console, Show, has_colours, is_interactive, print_bytes, print_lines
from ma_boot.reporting.exit_report import (
    Ending,
    below,
    end_event,
    exit_code,
    exit_status,
    report_lines,
    write_failure,
)
from ma_boot.reporting.explain import (
    EXIT_CODES,
    last_exception,
    last_words,
    missing_files,
    output_of_failed_rank,
    own_words,
    tells_of_sigkill,
)
from ma_boot.reporting.files import keep_earlier, write_atomically
from ma_boot.reporting.hints import hints_for, with_store_hint
from ma_boot.reporting.journal import Journal
from ma_boot.reporting.result import STOP_CODES, HangSuspect, RunResult, WorkerExit
from path_mapping.when_used import when_used

if TYPE_CHECKING:
    from ma_boot.reporting.terminal import rendered
else:  # only a terminal
    __getattr__ = when_used(__name__, {"terminal": ("rendered",)})

__all__ = [
    "EXIT_CODES",
    "STOP_CODES",
    "Console",
    "Ending",
    "HangSuspect",
    "Journal",
    "RunResult",
    "Show",
    "WorkerExit",
    "below",
    "end_event",
    "exit_code",
    "exit_status",
    "has_colours",
    "hints_for",
    "is_interactive",
    "keep_earlier",
    "last_exception",
    "last_words",
    "missing_files",
    "output_of_failed_rank",
    "own_words",
    "print_bytes",
    "print_lines",
    "rendered",
    "report_lines",
    "tells_of_sigkill",
    "with_store_hint",
    "write_atomically",
    "write_failure",
]
