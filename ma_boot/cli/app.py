"""The command line: turns options into values and errors into exit codes.

The only module that reads `os.environ` and `sys.argv`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

import click

from ma_boot import __version__
from ma_boot.cli.doctor import doctor
from ma_boot.cli.help import Group
from ma_boot.cli.image import image
from ma_boot.cli.options import RunOption
from ma_boot.cli.rank_table import rank_table
from ma_boot.cli.report import report
from ma_boot.cli.run import run
from ma_boot.cli.sync import sync
from ma_boot.errors import BootError, ExitCode, InternalError, Stopped

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def main(argv: Optional[Sequence[str]] = None, environ: Optional[Mapping[str, str]] = None) -> int:
    """Runs a command and returns its exit code; only an internal error prints a traceback."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    environment = dict(os.environ if environ is None else environ)
    try:
        defaults = {"run": _from_environment(run, environment)}
        code = commands.main(
            arguments, "ma_boot", standalone_mode=False, obj=environment, default_map=defaults
        )
        return int(code or 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "ma_boot"
        return _complain(f"{error.format_message()}\nTry '{command} --help'.", ExitCode.USAGE)
    except BootError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):  # while no phase handles signals
        return 128 + signal.SIGINT
    except Stopped as stopped:
        return _complain(str(stopped), 128 + stopped.signum)
    except Exception as error:
        return _complain(str(InternalError.of(error)), ExitCode.INTERNAL)


def _complain(message: str, code: int) -> int:
    from ma_boot.reporting import print_lines  # neither the help nor completion needs it

    print_lines("ma_boot: " + message, 2)
    return int(code)


class _RunByDefault(Group):
    """Passes what does not begin with a command to `run`: `ma_boot train.py`, `ma_boot --help TOPIC`."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        topic = args[:1] == ["--help"] and (len(args) > 1 or ctx.resilient_parsing)
        own = args[0] in (*self.commands, "--help", "--version") if args else ctx.resilient_parsing
        return super().parse_args(ctx, args if own and not topic else ["run", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[CompletionItem]:
        """The commands, and what may follow `run`, since `run` can be omitted."""
        of_run = run.make_context("run", [], parent=ctx, resilient_parsing=True)
        found = [*run.shell_complete(of_run, incomplete), *super().shell_complete(ctx, incomplete)]
        return list({(item.type, item.value): item for item in found}.values())


@click.group(
    cls=_RunByDefault, options_metavar="", subcommand_metavar="[run] [OPTIONS] [--] COMMAND [ARGS]..."
)
@click.version_option(__version__, prog_name="ma_boot")
def commands() -> None:
    """Boots training jobs on ModelArts.

    `run` is the default command: `ma_boot run --help` shows its common options, `ma_boot --help all` all of
    them. If the training command has the name of a command of ma_boot, put `--` before it.

    \b
    Example:
      ma_boot train.py --epochs 90
      ma_boot --local --nodes 2 --devices-per-node 4 train.py
    """


for command in (run, rank_table, image, sync, doctor, report):
    commands.add_command(command)


def _from_environment(command: click.Command, environ: Mapping[str, str]) -> Dict[str, Any]:
    """The options that are set by variables `MABOOT_SOME_NAME`."""
    found: Dict[str, Any] = {}
    for option in command.params:
        if isinstance(option, RunOption) and option.name and environ.get(option.variable):
            value = environ[option.variable]
            found[option.name] = tuple(re.split(r":(?!//)", value)) if option.multiple else value
    return found
