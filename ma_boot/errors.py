"""What can go wrong before and after the training, as errors that carry their exit code.

    BootError
    ├── UsageError          64  the user: the command line
    ├── RankTableInvalid    65  the platform: the table is completed, and wrong
    ├── InputMissing        66  the user: an input of the mapping does not exist
    ├── StoreUnavailable    69  the network or the credentials: OBS does not answer, or refuses
    ├── CannotCreate        73  the container: a directory or file cannot be made
    ├── OutputLost          74  the network or the container: an output could not be uploaded
    ├── RankTableTimeout    75  the platform: the table was not completed in time
    ├── ConfigError         78  the user: configuration or environment
    ├── NotExecutable      126  the user: the command
    └── CommandNotFound     127  the user: the command

    Stopped             128+n  nobody: a signal ended the phase
    PhaseCancelled          -  nobody: a phase that ran beside it failed

A worker that fails is no error of ours: it is a value, `supervise.RunResult`.
"""

from __future__ import annotations

import signal
from enum import IntEnum
from typing import Sequence


class ExitCode(IntEnum):
    """The exit codes that are ours; 1-125 otherwise belong to the training (design, section 7)."""

    SUCCESS = 0
    USAGE = 64
    RANK_TABLE_INVALID = 65
    INPUT_MISSING = 66
    STORE_UNAVAILABLE = 69
    INTERNAL = 70
    CANNOT_CREATE = 73
    OUTPUT_LOST = 74
    RANK_TABLE_TIMEOUT = 75
    CONFIG = 78
    HUNG = 124
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class BootError(Exception):
    """A failure that the message explains completely: no traceback is shown for it."""

    exit_code: int = ExitCode.INTERNAL


class UsageError(BootError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class RankTableInvalid(BootError):
    """The rank table is completed but breaks its own rules; the message lists every problem."""

    exit_code = ExitCode.RANK_TABLE_INVALID


class InputMissing(BootError):
    """Inputs that the mapping names do not exist in OBS."""

    exit_code = ExitCode.INPUT_MISSING


class StoreUnavailable(BootError):
    """OBS could not be reached, or refused the credentials."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class CannotCreate(BootError):
    """A directory or file could not be made: permission, full disk, a name that is taken."""

    exit_code = ExitCode.CANNOT_CREATE


class OutputLost(BootError):
    """The training ended well, but an output did not reach OBS."""

    exit_code = ExitCode.OUTPUT_LOST


class RankTableTimeout(BootError):
    """The rank table was not completed in time."""

    exit_code = ExitCode.RANK_TABLE_TIMEOUT


class ConfigError(BootError):
    """The configuration or the environment is wrong."""

    exit_code = ExitCode.CONFIG


class NotExecutable(BootError):
    """The command exists but cannot be executed."""

    exit_code = ExitCode.NOT_EXECUTABLE


class CommandNotFound(BootError):
    """The command does not exist."""

    exit_code = ExitCode.NOT_FOUND


class Stopped(Exception):
    """A stop signal ended the phase that was running."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal_name(signum)}")
        self.signum = signum


class PhaseCancelled(Exception):
    """The phase was given up, because another one that ran beside it had failed."""


def signal_name(signum: int) -> str:
    """`SIGTERM` for 15; `signal 77` for a number that has no name."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def listed(headline: str, problems: Sequence[str]) -> str:
    """A message of one headline and one line for each problem."""
    return "\n".join([headline, *(f"  - {problem}" for problem in problems)])
