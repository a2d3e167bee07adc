"""ModelArts' dynamic routing: ranks re-ordered by the network's topology (`ROUTE_PLAN=true`).

The platform mounts a module `route_plan` into `/usr/local/route` and a topology into `/user/config`, base64
of gzip of JSON. How they are called is known from ModelArts' own launcher (davincirun, `sdr.py`); the module
is compiled for some versions of Python, so it runs in the training's python, in a process of its own.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Callable, Mapping, Optional, Tuple

from ma_boot.errors import RankTableTimeout
from ma_boot.modelarts.rank_table_file import wait_until_completed
from ma_boot.processes import SignalInbox, run_child

MODULE_DIR = "/usr/local/route"
TOPOLOGY = "/user/config/ranktable_tor.json"
WAIT_SECONDS = 300.0
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
) -> Optional[Tuple[Path, Tuple[int, ...]]]:
    """The re-ordered table's file and this node's ranks in it; None, said why, where the order stays.

    `TOPO_FILE_PATH` and `ROUTE_TOPO_WAIT_TIME` (seconds) are honoured as the platform's launcher does.
    """
    if not any(Path(module_dir).glob("route_plan*")):
        say(f"ROUTE_PLAN is set, but there is no route_plan module in {module_dir}: the rank table stays")
        return None
    source = environ.get("TOPO_FILE_PATH") or TOPOLOGY
    try:
        topology = wait_until_completed(
            source,
            float(environ.get("ROUTE_TOPO_WAIT_TIME") or WAIT_SECONDS),
            sleep=inbox.wait,
            check=inbox.check,
            say=say,
            taken=lambda document: None,
            decode=decompressed,
        )
    except (RankTableTimeout, ValueError) as error:
        say(f"no topology for the route plan, the rank table stays: {str(error).splitlines()[0]}")
        return None
    directory = table_file.parent
    (directory / "topology.json").write_text(json.dumps(topology), encoding="utf-8")
    planned, answer = directory / "jobstart_routeplan.json", directory / "route_plan.answer.json"
    answer.unlink(missing_ok=True)
    arguments = (directory / "topology.json", table_file, planned, server_id, answer)
    code = run_child(
        [python, "-c", _PROGRAM, module_dir, *map(str, arguments)],
        environ,
        inbox,
        lambda: say("route_plan is still at work"),
        cwd=str(directory),
    )
    done, ranks = json.loads(answer.read_text()) if answer.exists() else (False, [])
    if not done or not planned.exists():
        say(f"route_plan gave no table (exit code {code}): the rank table stays")
        return None
    return planned, tuple(ranks)


def decompressed(data: bytes) -> str:
    """The topology's JSON; raises `ValueError` for what is not (yet) one."""
    try:
        return gzip.decompress(base64.b64decode(data)).decode("utf-8")
    except (OSError, EOFError) as error:
        raise ValueError(f"no whole gzip: {error}") from error
