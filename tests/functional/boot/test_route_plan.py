"""ModelArts' dynamic routing, with a stand-in for its planner: the real one is on the platform only."""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ma_boot.platform.modelarts.platform_programs import planned_route
from ma_boot.platform.rank_table import convert, fake, parse
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import RANK, Node

# Written from the call in ModelArts' own launcher: swaps the two nodes.
STAND_IN = """
import json
class RoutePlan:
    @staticmethod
    def init(topo_file, rank_file, save_rank_file, cursrvip):
        assert json.load(open(topo_file))["status"] == "completed"
        table = json.load(open(rank_file))
        table["server_list"].reverse()
        devices = [device for server in table["server_list"] for device in server["device"]]
        for rank, device in enumerate(devices):
            device["rank_id"] = str(rank)
        json.dump(table, open(save_rank_file, "w"))
        own = next(server for server in table["server_list"] if server["server_id"] == cursrvip)
        return True, [(d["rank_id"], d["device_id"], d["device_ip"]) for d in own["device"]], cursrvip
"""


@pytest.fixture
def inbox() -> Iterator[SignalInbox]:
    with SignalInbox() as inbox:
        yield inbox


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Our converted table of two nodes with two cards."""
    file = tmp_path / "rank_table" / "jobstart_hccl.json"
    file.parent.mkdir()
    file.write_text(convert(parse(fake(2, 2))).dumps())
    return file


def planned(tmp_path: Path, table: Path, inbox: SignalInbox, module: str, lines: list[str]) -> object:
    (tmp_path / "route").mkdir()
    (tmp_path / "route" / "route_plan.py").write_text(module)
    topology = tmp_path / "ranktable_tor.json"
    if not topology.exists():
        topology.write_bytes(base64.b64encode(gzip.compress(b'{"status": "completed"}')))
    environ: dict[str, str] = {"TOPO_FILE_PATH": str(topology), "ROUTE_TOPO_WAIT_TIME": "0.2"}
    route = str(tmp_path / "route")
    return planned_route(sys.executable, table, "192.168.0.1", environ, inbox, lines.append, route)


def test_table_and_ranks_of_the_planner_are_used(tmp_path: Path, table: Path, inbox: SignalInbox) -> None:
    route = planned(tmp_path, table, inbox, STAND_IN, [])
    assert route == (table.parent / "jobstart_routeplan.json", (2, 3))
    document = json.loads((table.parent / "jobstart_routeplan.json").read_text())
    assert document["server_list"][0]["server_id"] == "192.168.0.2"


@pytest.mark.parametrize(
    "module", ["raise RuntimeError('no licence')", STAND_IN.replace("return True", "return False")]
)
def test_failed_planner_leaves_the_order_of_ranks(
    tmp_path: Path, table: Path, inbox: SignalInbox, module: str
) -> None:
    lines: list[str] = []
    assert planned(tmp_path, table, inbox, module, lines) is None
    assert "route_plan returned no table" in lines[-1]


@pytest.mark.parametrize(
    "content",
    [b"", b"not base64 gzip", base64.b64encode(gzip.compress(b'{"status": "initializing"}'))],
    ids=["empty", "no gzip", "initializing"],
)
def test_missing_topology_leaves_the_order_of_ranks(
    tmp_path: Path, table: Path, inbox: SignalInbox, content: bytes
) -> None:
    (tmp_path / "ranktable_tor.json").write_bytes(content)
    lines: list[str] = []
    assert planned(tmp_path, table, inbox, STAND_IN, lines) is None
    assert "no topology for the route plan" in lines[-1]


def test_missing_planner_is_reported_in_one_line(tmp_path: Path) -> None:
    node = Node(tmp_path, variables={"ROUTE_PLAN": "true"})
    node.complete_table()
    ended = node.boot(RANK)
    assert ended.code == 0, ended.output
    assert ended.output.count("no route_plan module in /usr/local/route") == 1
