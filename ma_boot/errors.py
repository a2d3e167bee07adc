"""The errors of ma_boot and their exit codes. Pure.

A process of the training that fails is not an error here but a value, `RunResult`.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Sequence
from enum import IntEnum

from ma_boot import __version__
from ma_boot.wording import Message, in_lines


class ExitCode(IntEnum):
    """The exit codes of ma_boot; any other one is that of the training. 64 to 78 are those of sysexits.h."""

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
    """A failure that its message explains completely; it is shown without a traceback."""

    exit_code: int = ExitCode.INTERNAL


class UsageError(BootError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class RankTableInvalid(BootError):
    """The rank table is completed, but invalid; the message lists every problem."""

    exit_code = ExitCode.RANK_TABLE_INVALID


class CheckpointDamaged(BootError):
    """A checkpoint in OBS is not as it was published; the message lists every problem."""

    exit_code = ExitCode.RANK_TABLE_INVALID


class InputMissing(BootError):
    """An input does not exist."""

    exit_code = ExitCode.INPUT_MISSING


class StoreUnavailable(BootError):
    """OBS, or another server, does not answer or rejects the credentials."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class InternalError(BootError):
    """An exception that no check of ma_boot has raised; the message has its traceback."""

    exit_code = ExitCode.INTERNAL

    @classmethod
    def of(cls, error: BaseException) -> InternalError:
        """The internal error that this exception is: what it says first, then its traceback."""
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n")
        return cls(f"internal error of ma_boot {__version__}: {described(error)}\n{lines}")


class CannotCreate(BootError):
    """A directory or file cannot be created: no permission, full disk, name in use."""

    exit_code = ExitCode.CANNOT_CREATE


class LimitReached(BootError):
    """A process, a thread or a file cannot be had: a limit of this user, or of the container, is reached."""

    exit_code = ExitCode.CANNOT_CREATE


class OutputLost(BootError):
    """The training succeeded, but an output could not be uploaded."""

    exit_code = ExitCode.OUTPUT_LOST


class RankTableTimeout(BootError):
    """The rank table was not completed in time."""

    exit_code = ExitCode.RANK_TABLE_TIMEOUT


class NodesLate(BootError):
    """Other nodes did not come in time to agree on the checkpoint to resume from."""

    exit_code = ExitCode.RANK_TABLE_TIMEOUT


class ConfigError(BootError):
    """The configuration or the environment is wrong."""

    exit_code = ExitCode.CONFIG


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
    """`SIGTERM` for 15; `signal 77` for a number without a name."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def described(error: BaseException) -> str:
    """An unexpected exception in one line: `PermissionError: [Errno 13] ...`."""
    return f"{type(error).__name__}: {error}".split("\n", 1)[0]


def listed(headline: str, problems: Sequence[str]) -> str:
    """A message with a headline and a line for each problem."""
    return in_lines([headline, *(Message.of("  - {}", problem) for problem in problems)])
