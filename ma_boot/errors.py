"""Errors of ma_boot and their exit codes. Pure.

A failed process of the training is not an error here but a value, `RunResult`.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Sequence
from enum import IntEnum

from ma_boot import __version__
from ma_boot.wording import Message, in_lines


class ExitCode(IntEnum):
    """Exit codes of ma_boot, 64 to 78 as in sysexits.h; any other code is that of the training."""

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
    """An expected failure: its message explains it, so it is shown without a traceback."""

    exit_code: int = ExitCode.INTERNAL


class UsageError(BootError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class RankTableInvalid(BootError):
    """The rank table is complete but invalid; the message lists every problem."""

    exit_code = ExitCode.RANK_TABLE_INVALID


class CheckpointDamaged(BootError):
    """A checkpoint in OBS differs from what was published; the message lists every problem."""

    exit_code = ExitCode.RANK_TABLE_INVALID


class InputMissing(BootError):
    """An input does not exist."""

    exit_code = ExitCode.INPUT_MISSING


class StoreUnavailable(BootError):
    """OBS, or another server, is unreachable or rejects the credentials."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class InternalError(BootError):
    """An unexpected exception: a bug of ma_boot. The message has the traceback."""

    exit_code = ExitCode.INTERNAL

    @classmethod
    def of(cls, error: BaseException) -> InternalError:
        """Wraps an exception; its own text comes first, then its traceback."""
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n")
        return cls(f"internal error of ma_boot {__version__}: {described(error)}\n{lines}")


class CannotCreate(BootError):
    """A directory or file cannot be created: no permission, full disk, name in use."""

    exit_code = ExitCode.CANNOT_CREATE


class LimitReached(BootError):
    """Out of processes, threads or file descriptors: a limit of the user or of the container is reached."""

    exit_code = ExitCode.CANNOT_CREATE


class OutputLost(BootError):
    """The training succeeded, but an output could not be uploaded."""

    exit_code = ExitCode.OUTPUT_LOST


class RankTableTimeout(BootError):
    """The rank table was not completed in time."""

    exit_code = ExitCode.RANK_TABLE_TIMEOUT


class NodesLate(BootError):
    """Peers did not arrive in time to agree on the checkpoint to resume from."""

    exit_code = ExitCode.RANK_TABLE_TIMEOUT


class ConfigError(BootError):
    """The configuration or the environment is wrong."""

    exit_code = ExitCode.CONFIG


class RepeatedFailure(BootError):
    """Earlier starts of the job have failed in the same way; the exit code is that of their failure."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class NotExecutable(BootError):
    """The command exists, but cannot be executed."""

    exit_code = ExitCode.NOT_EXECUTABLE


class CommandNotFound(BootError):
    """The command does not exist."""

    exit_code = ExitCode.NOT_FOUND


class Stopped(Exception):
    """A stop signal ended the current phase."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal_name(signum)}")
        self.signum = signum


class PhaseCancelled(Exception):
    """The phase was cancelled because a concurrent one failed."""


def signal_name(signum: int) -> str:
    """Returns `SIGTERM` for 15, and `signal 77` for a number without a name."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def described(error: BaseException) -> str:
    """Formats an unexpected exception in one line: `PermissionError: [Errno 13] ...`."""
    return f"{type(error).__name__}: {error}".split("\n", 1)[0]


def listed(headline: str, problems: Sequence[str]) -> str:
    """Formats a headline and a line for each problem below it."""
    return in_lines([headline, *(Message.of("  - {}", problem) for problem in problems)])
