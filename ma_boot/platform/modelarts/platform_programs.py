"""Programs of the platform: those of the driver, and the route planner, as ModelArts' launcher runs them.

That launcher is davincirun.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from ma_boot.errors import RankTableTimeout
from ma_boot.platform.modelarts.rank_table_file import wait_until_completed
from ma_boot.processes.children import run_child
from ma_boot.processes.signals import SignalInbox
from ma_boot.redact import without_secret_variables
from ma_boot.wording import ProgressLine, WarningLine

TOOLS = Path("/usr/local/Ascend/driver/tools")
# Seconds; max. time of the driver's script for the end of a container.
POST_STOP_SECONDS = 10.0


def start_slogd(environ: Mapping[str, str], say: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Starts the driver's log daemon if it is installed; it runs until the container ends."""
    daemon = tools / "docker" / "slogd"
    if not daemon.is_file():
        return
    # Standard error stays open: the daemon reports its errors there.
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    try:
        os.posix_spawn(
            daemon, [str(daemon)], without_secret_variables(environ), file_actions=nothing, setsid=True
        )
    except OSError as error:
        say(WarningLine(f"{daemon} could not be started: {error.strerror}"))
    else:
        say(ProgressLine(f"started {daemon}"))


def call_post_stop(environ: Mapping[str, str], warn: Callable[[str], None], tools: Path = TOOLS) -> None:
    """Runs the driver's script for the end of a container if it is installed, for at most 10 s."""
    script = tools / "docker_stop_post_sys.sh"
    if not script.is_file():
        return
    try:
        done = subprocess.run(
            ["bash", str(script)],
            env=without_secret_variables(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=POST_STOP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        warn(f"{script}: {error}")
    else:
        warn(f"{script} ended with exit code {done.returncode}")


# ModelArts' dynamic routing (`ROUTE_PLAN=true`) reorders the ranks by the topology of the network: the
# platform mounts a module `route_plan`, and a topology file of JSON, packed with gzip and base64. The module
# is called as by ModelArts' launcher (davincirun, `sdr.py`); the training's python runs it, since it is
# compiled for certain versions of Python.
MODULE_DIR = "/usr/local/route"
TOPOLOGY = "/user/config/ranktable_tor.json"
# Seconds; max. wait for the topology.
WAIT_SECONDS = 300.0
# Run by the training's python. Arguments: directory of the module, topology, table, new table, address of
# this server, file for the answer.
_PROGRAM = """
import json, sys
sys.path.append(sys.argv[1])
from route_plan import RoutePlan
done, devices, _ = RoutePlan.init(topo_file=sys.argv[2], rank_file=sys.argv[3], save_rank_file=sys.argv[4],
                                  cursrvip=sys.argv[5])
json.dump([bool(done), [int(device[0]) for device in devices or ()]], open(sys.argv[6], "w"))
"""


def planned_route(
    python: str,
    table_file: Path,
    server_id: str,
    environ: Mapping[str, str],
    inbox: SignalInbox,
    say: Callable[[str], None],
    module_dir: str = MODULE_DIR,
) -> tuple[Path, tuple[int, ...]] | None:
    """Returns the file of the reordered table and this node's ranks in it; None if the order stays.

    `say` reports the reason then. `TOPO_FILE_PATH` and `ROUTE_TOPO_WAIT_TIME` (seconds) have the meaning of
    the platform's launcher. Raises `Stopped` at a stop signal.
    """
    if not any(Path(module_dir).glob("route_plan*")):
        why = f"there is no route_plan module in {module_dir}: rank table unchanged"
        say(WarningLine(f"ROUTE_PLAN is set, but {why}"))
        return None
    source = environ.get("TOPO_FILE_PATH") or TOPOLOGY
    try:
        topology = wait_until_completed(
            source,
            float(environ.get("ROUTE_TOPO_WAIT_TIME") or WAIT_SECONDS),
            sleep=inbox.wait,
            check=inbox.check,
            say=say,
        )
    except (RankTableTimeout, ValueError) as error:
        why = str(error).splitlines()[0]
        say(WarningLine(f"no topology for the route plan, rank table unchanged: {why}"))
        return None
    directory = table_file.parent
    (directory / "topology.json").write_text(json.dumps(topology), encoding="utf-8")
    planned, answer = directory / "jobstart_routeplan.json", directory / "route_plan.answer.json"
    # The answer of an earlier attempt must not be taken for this one's.
    answer.unlink(missing_ok=True)
    arguments = (directory / "topology.json", table_file, planned, server_id, answer)
    code = run_child(
        [python, "-c", _PROGRAM, module_dir, *map(str, arguments)],
        environ,
        inbox,
        lambda: say("route_plan is still running"),
        cwd=str(directory),
    )
    done, ranks = json.loads(answer.read_text()) if answer.exists() else (False, [])
    if not done or not planned.exists():
        say(WarningLine(f"route_plan returned no table (exit code {code}): rank table unchanged"))
        return None
    return planned, tuple(ranks)
