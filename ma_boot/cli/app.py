"""The command line: the commands, and exit codes for their errors.

The only module that reads `os.environ` and `sys.argv`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ma_boot import __version__
from ma_boot.cli.help import Group, LazyCommands, whole_output
from ma_boot.errors import BootError, ConfigError, ExitCode, InternalError, Stopped
from ma_boot.redact import is_secret, remember_secrets
from ma_boot.wording import Message

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Directory of the package, shown by --version as pip shows its own.
_PLACE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Runs a command and returns its exit code; only an internal error prints a traceback."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    environment = _own_environment() if environ is None else dict(environ)
    remember_secrets(environment, afresh=True)
    try:
        with whole_output():
            code = commands.main(arguments, "ma_boot", standalone_mode=False, obj=environment)
        return int(code or 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "ma_boot"
        message = _only_a_variable(error) or error.format_message()
        return _complain(f"{message}\nTry '{command} --help'.", ExitCode.USAGE)
    except BootError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):  # while no phase handles signals
        return 128 + signal.SIGINT
    except Stopped as stopped:
        return _complain(str(stopped), 128 + stopped.signum)
    except Exception as error:
        from ma_boot.processes.control_group import limit_reached  # as above

        failure = limit_reached(error) or InternalError.of(error)
        return _complain(str(failure), failure.exit_code)


def _only_a_variable(error: click.ClickException) -> str:
    """The message for an option that only its environment variable sets; empty for another mistake."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    name, params = error.option_name, error.ctx.command.params
    options = (getattr(param, "declared", None) for param in params if name in param.opts)
    variable = next((declared.variable for declared in options if declared), "")
    return f"{name}: no option; set the environment variable {variable}" if variable else ""


def _own_environment() -> dict[str, str]:
    """Returns the environment and removes its secrets from `os.environ`, so that no program inherits them.

    `/proc/PID/environ` still shows the environment at the start of this process.
    """
    environ = dict(os.environ)
    for name, value in environ.items():
        if is_secret(name, value):
            del os.environ[name]
    return environ


def _complain(message: str, code: int) -> int:
    from ma_boot.report.console import print_lines  # neither the help nor completion needs it

    print_lines(Message.of("{}{}", "ma_boot: ", message), 2)
    return int(code)


# Place of each command and the first sentence of its help, so that the overview imports no command.
COMMANDS = {
    "run": (
        "ma_boot.cli.run:run",
        "Boots this node of a job: inputs, rank table, processes, outputs.",
    ),
    "rank-table": (
        "ma_boot.cli.rank_table:rank_table",
        "Shows, checks and generates rank tables, without a job.",
    ),
    "image": (
        "ma_boot.cli.image:image",
        "Builds an image, checks it against ModelArts' rules, pushes it to SWR.",
    ),
    "job": ("ma_boot.cli.job:job", "Submits a job to ModelArts as it was rehearsed, and follows it."),
    "sync": ("ma_boot.cli.sync:sync", "Transfers inputs and outputs by a path mapping, without a job."),
    "checkpoint": (
        "ma_boot.cli.checkpoint:checkpoint",
        "Lists, verifies, downloads and removes the checkpoints of an output in OBS.",
    ),
    "doctor": (
        "ma_boot.cli.doctor:doctor",
        "Checks this container before a job does; each finding says what is wrong and what to do.",
    ),
    "rehearsal": (
        "ma_boot.cli.rehearsal:rehearsal",
        "Opens the page of a rehearsal of `ma_boot --local`.",
    ),
    "report": (
        "ma_boot.cli.report:report",
        "Reports why a job ended, and makes one page of it: all its nodes on one timeline.",
    ),
    "completion": (
        "ma_boot.cli.completion:completion",
        "Prints the completion of commands, options and files for a shell.",
    ),
}


class _RunByDefault(Group):
    """The commands; words that do not begin with one are for `run`: `train.py`, `--help TOPIC`."""

    def about(self, name: str) -> str:
        return COMMANDS[name][1]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            args = [args[1], "--help"] if args[1:2] and args[1] in self.commands else ["--help", *args[1:]]
        topic = args[:1] in (["--help"], ["-h"]) and (len(args) > 1 or ctx.resilient_parsing)
        own = not args or args[0] in (*self.commands, "-h", "--help", "--version")
        return super().parse_args(ctx, args if own and not topic else ["run", *args])

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Raises `ConfigError` if the working directory was removed."""
        try:
            return super().invoke(ctx)
        except FileNotFoundError:
            try:
                os.getcwd()
            except OSError as error:
                raise ConfigError(
                    f"the working directory cannot be used ({error.strerror}): it was removed, or moved "
                    "while a shell was in it; change to one that exists (cd)"
                ) from error
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes commands and the words of `run`, which can be omitted."""
        run = self.commands["run"]
        of_run = click.Context(run, ctx, "run", resilient_parsing=True)  # there are no words to parse
        completions = [*run.shell_complete(of_run, incomplete), *super().shell_complete(ctx, incomplete)]
        return list({(item.type, item.value): item for item in completions}.values())


@click.group(
    cls=_RunByDefault,
    commands=LazyCommands({name: place for name, (place, _) in COMMANDS.items()}),
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="",
    subcommand_metavar="[run] [OPTIONS] [--] COMMAND [ARGS]...",
)
@click.version_option(
    __version__,
    prog_name="ma_boot",
    message=f"%(prog)s %(version)s from {_PLACE} (Python {'.'.join(map(str, sys.version_info[:3]))})",
)
def commands() -> None:
    """Boots training jobs on ModelArts.

    `run` is the default command: `ma_boot run --help` shows its common options, `ma_boot --help all` all of
    them. If the training command has the name of a command of ma_boot, put `--` before it.

    \b
    Example:
      ma_boot train.py --epochs 90
      ma_boot --local --nodes 2 --devices-per-node 4 train.py
    """
