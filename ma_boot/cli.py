"""The command line: options to values, errors to exit codes.

The only reader of `os.environ` and `sys.argv`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from ma_boot import __version__
from ma_boot.boot import boot, plan_only
from ma_boot.console import Console, can_move, print_lines
from ma_boot.doctor_command import doctor
from ma_boot.errors import BootError, ExitCode, Stopped
from ma_boot.image_commands import image
from ma_boot.journal import Journal
from ma_boot.launch import described, plan_text
from ma_boot.local import options as local_options
from ma_boot.options import GroupedCommand, run_options
from ma_boot.orphans import adopt_orphans
from ma_boot.page.command import report
from ma_boot.page.in_time import write_in_time
from ma_boot.processes import forbid_core_files
from ma_boot.rank_table_commands import rank_table
from ma_boot.report import Ending, end_event, exit_code, report_lines, write_failure
from ma_boot.request import BootRequest, completed, conflicts
from ma_boot.signals import SignalInbox
from ma_boot.sync_commands import sync
from ma_boot.world import World

_ONLY_DOCKER = ("image", "offline", "memory", "shm_size", "keep")
_ONLY_LOCAL = ("nodes", "devices_per_node", "rank_table_delay", "code_dir", "rehearsal_dir", "runner")


def main(argv: Optional[Sequence[str]] = None, environ: Optional[Mapping[str, str]] = None) -> int:
    """Runs one command and returns its exit code; a user's mistake brings no traceback."""
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
    except (KeyboardInterrupt, click.Abort):  # before, or after, a phase could hear it
        return 128 + signal.SIGINT
    except Stopped as stopped:
        return _complain(str(stopped), 128 + stopped.signum)
    except Exception:  # a defect of ours: the one place that shows a traceback
        import traceback  # no command pays for it that ends well

        return _complain(f"a defect of ma_boot {__version__}:\n{traceback.format_exc()}", ExitCode.INTERNAL)


def _complain(message: str, code: int) -> int:
    print_lines("ma_boot: " + message, 2)
    return int(code)


class _RunByDefault(click.Group):
    """`ma_boot train.py` is `ma_boot run train.py`."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if not args or args[0] not in (*self.commands, "--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunByDefault, subcommand_metavar="[run] [OPTIONS] [--] COMMAND [ARGS]...")
@click.version_option(__version__, prog_name="ma_boot")
def commands() -> None:
    """Puts a training command to work on ModelArts: `ma_boot train.py --epochs 90`.

    `run` is the default command; see `ma_boot run --help` for its options. A training command that is
    called like a command of ma_boot goes after `--`.
    """


commands.add_command(rank_table)
commands.add_command(image)
commands.add_command(sync)
commands.add_command(doctor)
commands.add_command(report)


@commands.command(
    cls=GroupedCommand,
    context_settings={
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
        "max_content_width": 110,
    },
    epilog="Every option --some-name can be given as the environment variable MABOOT_SOME_NAME too; "
    "the option wins. Several values in one variable are separated by colons.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGS]...")
@run_options
@click.pass_context
def run(
    ctx: click.Context, /, command: Sequence[str], as_module: bool, plan: bool, as_json: bool, **rest: Any
) -> int:
    """Boots this node of a job: environment, rank table, inputs, one process per device, outputs, report.

    COMMAND is a .py file, -m MODULE, a .sh file or a program; everything after it belongs to it.

    \b
      ma_boot train.py --epochs 90
      ma_boot --local --nodes 2 --devices-per-node 4 train.py
    """
    environ: Mapping[str, str] = ctx.obj
    if as_json and not plan:
        raise click.UsageError("--json prints the plan: give --plan too.")
    local = rest.pop("local")
    docker = {name: rest.pop(name) for name in _ONLY_DOCKER}
    local_settings = {name: rest.pop(name) for name in (*_ONLY_LOCAL, *local_options.NAMES)}
    if not local:
        given = (*_ONLY_LOCAL, *local_options.NAMES, *_ONLY_DOCKER)
        _refuse_given(ctx, given, "only a rehearsal has this; give --local too.")
    if not command and local_settings["fault"] != local_options.ALL_FAULTS:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[0])
    request = completed(BootRequest(command=("-m", *command) if as_module else tuple(command), **rest))
    if conflicts(request):
        raise click.UsageError("\n".join(conflicts(request)))
    if local and local_settings.pop("runner") == "docker":
        if plan:
            raise click.UsageError("--plan: only --runner process prints a plan.")
        _refuse_given(ctx, local_options.NAMES, "only --runner process has this.")
        local_settings = {name: local_settings[name] for name in _ONLY_LOCAL if name != "runner"}
        return _rehearse_in_containers(request, local_settings, docker, environ)
    _refuse_given(ctx, _ONLY_DOCKER, "only containers have this; give --runner docker too.")
    if local:
        return _rehearse(request, local_settings, environ, plan, as_json)
    return _plan_here(request, environ, as_json) if plan else _boot_here(request, environ)


def _refuse_given(ctx: click.Context, names: Sequence[str], why: str) -> None:
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}")


def _from_environment(command: click.Command, environ: Mapping[str, str]) -> Dict[str, Any]:
    """The options that are given as `MABOOT_SOME_NAME`."""
    found: Dict[str, Any] = {}
    for option in command.params:
        value = environ.get("MABOOT_" + option.opts[-1].lstrip("-").replace("-", "_").upper())
        if isinstance(option, click.Option) and value and option.name and option.opts[-1].startswith("--"):
            found[option.name] = tuple(re.split(r":(?!//)", value)) if option.multiple else value
    return found


def _world(environ: Mapping[str, str], inbox: SignalInbox, console: Console) -> World:
    return World(environ, os.uname().nodename, os.getcwd(), inbox, console, Journal(console))


def _boot_here(request: BootRequest, environ: Mapping[str, str]) -> int:
    with SignalInbox() as inbox, Console(moving=can_move(environ)) as console:
        adopt_orphans()
        forbid_core_files()
        world = _world(environ, inbox, console)
        ending = boot(request, world)
        code = exit_code(ending)
        world.journal.event("end", **end_event(ending))
        write_failure(ending)
        page = _page_here(ending, world)
        world.journal.say("\n".join(report_lines(ending, world.journal.phases, page)))
        world.journal.close()
    return code


def _page_here(ending: Ending, world: World) -> Optional[str]:
    """The node's page, if there is one; in time, and without a say in how the job ended."""
    if ending.job is None:
        return None
    events, page = Path(ending.job.events_file), Path(ending.job.page_file)
    return str(page) if write_in_time([events], page, world) else None


def _plan_here(request: BootRequest, environ: Mapping[str, str], as_json: bool) -> int:
    with SignalInbox() as inbox, Console(2) as console:
        plan = plan_only(request, _world(environ, inbox, console))
    _print_plans([described(plan, environ)], as_json)
    return ExitCode.SUCCESS


def _rehearse(
    request: BootRequest, settings: Mapping[str, Any], environ: Mapping[str, str], plan: bool, as_json: bool
) -> int:
    from ma_boot.local.rehearse import plan_rehearsal, rehearse  # a job on the platform needs none

    rehearsal = local_options.rehearsal_of(request, settings)
    with SignalInbox() as inbox, Console(2) if plan else Console(moving=can_move(environ)) as console:
        world = _world(environ, inbox, console)
        if not plan:
            adopt_orphans()
            if settings["fault"] == local_options.ALL_FAULTS:
                from ma_boot.local.faults.matrix import run_all

                return run_all(rehearsal, world)
            return rehearse(rehearsal, world)
        plans = plan_rehearsal(rehearsal, world)
    _print_plans(plans, as_json)
    return ExitCode.SUCCESS


def _rehearse_in_containers(
    request: BootRequest, settings: Mapping[str, Any], docker: Mapping[str, Any], environ: Mapping[str, str]
) -> int:
    from ma_boot.local.containers import plan, rehearse  # a job on the platform needs none
    from ma_boot.local.rehearse import Rehearsal

    if docker["image"] is None:
        raise click.UsageError("--runner docker: name the job's image with --image.")
    rehearsal, options = Rehearsal(request=request, **settings), plan.ContainerOptions(**docker)
    with SignalInbox() as inbox, Console(moving=can_move(environ)) as console:
        adopt_orphans()
        return rehearse.rehearse_in_containers(rehearsal, options, _world(environ, inbox, console))


def _print_plans(plans: Sequence[Dict[str, Any]], as_json: bool) -> None:
    text = json.dumps({"nodes": plans}, indent=2, ensure_ascii=False) if as_json else plan_text(plans)
    print_lines(text)
