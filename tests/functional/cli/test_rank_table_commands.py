"""`ma_boot rank-table` on real files, and waits for tables of real writers."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ma_boot.platform.rank_table import fake
from tests.functional.cli.rank_table_tool import Run, run, tool
from tests.functional.node import RANK, Node, eventually, template_two
from tests.requirement import unavailable


@pytest.fixture
def two(tmp_path: Path) -> str:
    """A table of two nodes with two cards each, in template two."""
    file = tmp_path / "two.json"
    file.write_text(json.dumps(fake(2, 2)))
    return str(file)


def single(tmp_path: Path, name: str, server: str, devices: int = 1) -> str:
    """The table of a single server, as hccl_tools writes it."""
    cards = [
        {"device_id": str(d), "device_ip": f"192.{d}.0.{server.rpartition('.')[2]}", "rank_id": str(d)}
        for d in range(devices)
    ]
    document = {"status": "completed", "version": "1.0", "server_count": "1"}
    file = tmp_path / name
    file.write_text(json.dumps({**document, "server_list": [{"server_id": server, "device": cards}]}))
    return str(file)


def test_show_prints_text_or_json(two: str) -> None:
    lines = tool("show", two).output.splitlines()
    assert lines[0].split() == ["rank", "pod", "server_id", "device_id", "device_ip"]
    assert lines[3].split() == ["2", "ma-job-fake-worker-1", "192.168.0.2", "0", "192.1.0.2"]
    assert json.loads(tool("show", "--json", two).output)[3]["rank"] == 3


def test_validate_lists_all_errors(two: str) -> None:
    assert tool("validate", two).output == "valid\n"
    refused = tool("validate", "--product", "910a", two)
    assert refused.code == 65
    assert refused.output.count("error: ") == 1
    assert json.loads(tool("validate", "--json", "--product", "910a", two).output)[0]["hccl"] == "EI0014"
    assert tool("validate", "-", given=json.dumps(fake(2, 8))).output == "valid\n"


def test_convert_is_idempotent(two: str, tmp_path: Path) -> None:
    target = tmp_path / "one.json"
    assert tool("convert", two, "-o", str(target)).code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert tool("convert", str(target)).output == target.read_text()


def test_merge_orders_servers_naturally(tmp_path: Path) -> None:
    files = [single(tmp_path, f"hccl_{n}.json", f"10.0.0.{n}") for n in (10, 2)]
    merged = json.loads(tool("merge", *files).output)
    places = [(server["server_id"], server["device"][0]["rank_id"]) for server in merged["server_list"]]
    assert places == [("10.0.0.2", "0"), ("10.0.0.10", "1")]


def test_merge_rejects_a_duplicate_server(tmp_path: Path) -> None:
    files = [single(tmp_path, name, "10.0.0.1") for name in ("a.json", "b.json")]
    refused = tool("merge", *files)
    assert refused.code == 65
    assert "server 10.0.0.1 in two tables" in refused.errors


def test_generate_reads_hccn_conf(tmp_path: Path) -> None:
    conf = tmp_path / "hccn.conf"
    conf.write_text(
        "address_0=192.98.92.100\nnetmask_0=255.255.255.0\naddress_1=192.98.93.100\naddress_4=192.98.92.101\n"
    )
    made = tool("generate", "--devices", "1,0", "--server-id", "10.1.1.1", "--hccn-conf", str(conf))
    assert made.code == 0, made.output
    assert json.loads(made.output)["server_list"][0]["device"] == [
        {"device_id": "0", "device_ip": "192.98.92.100", "rank_id": "0"},
        {"device_id": "1", "device_ip": "192.98.93.100", "rank_id": "1"},
    ]
    missing = tool("generate", "--devices", "0,7", "--server-id", "x", "--hccn-conf", str(conf))
    assert (missing.code, "no address of 7" in missing.errors) == (78, True)


def test_generate_asks_hccn_tool(tmp_path: Path) -> None:
    stand_in = tmp_path / "hccn_tool"  # written from MindSpore's guide: there is no NPU here
    stand_in.write_text(
        '#!/bin/sh\n[ "$2" -lt 2 ] && echo "ipaddr:192.98.9$2.131" && echo "netmask:255.255.255.0"\n'
    )
    stand_in.chmod(0o755)
    made = tool("generate", "--server-id", "10.1.1.1", path=f"{tmp_path}:/usr/bin:/bin")
    ips = [device["device_ip"] for device in json.loads(made.output)["server_list"][0]["device"]]
    assert ips == ["192.98.90.131", "192.98.91.131"]


@pytest.mark.parametrize(("template", "key"), [("one", "server_list"), ("two", "group_list")])
def test_fake_writes_both_templates(template: str, key: str) -> None:
    assert key in json.loads(tool("fake", "--nodes", "3", "--template", template).output)


def test_diff_lists_the_ranks_that_moved(tmp_path: Path, two: str) -> None:
    document = fake(2, 2)
    document["group_list"][0]["instance_list"][0]["server_id"] = "192.168.0.9"
    after = tmp_path / "after.json"
    after.write_text(json.dumps(document))
    assert tool("diff", two, two).code == 0
    changed = tool("diff", two, str(after))
    assert changed.code == 1
    assert [line.partition(":")[0] for line in changed.output.splitlines()] == ["rank 2", "rank 3"]


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        (["show", "/no/such.json"], "", 66, "No such file"),
        (["show", "-"], '{"status":"initializing"}', 65, 'status is "initializing"'),
        (["convert", "-"], '{"status":"completed"}', 65, "no known list"),
        (["wait", "--timeout", "0", "/no/such.json"], "", 75, "does not exist yet"),
        (["generate", "--devices", "0,x"], "", 64, "found x, expected numbers"),
        (["melt"], "", 64, "No such command 'melt'"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], given: str, code: int, message: str) -> None:
    ended = tool(*arguments, given=given)
    assert ended.code == code, ended.errors
    assert message in ended.errors
    assert "Traceback" not in ended.errors


COMPLETED = json.dumps(template_two(1, 2))


def write_torn(file: Path, text: str) -> None:
    """Writes like an open-source controller: truncates, writes in two halves, then a `version` beside the table."""
    with file.open("w") as target:
        time.sleep(0.1)
        target.write(text[: len(text) // 2])
        target.flush()
        time.sleep(0.1)
        target.write(text[len(text) // 2 :])
    (file.parent / "version").write_text(str(time.time_ns()))


def swap_link(file: Path, text: str) -> None:
    """Writes like an updated ConfigMap: replaces the link to the directory of the files."""
    directory = file.parent / f"..{time.time_ns()}"
    directory.mkdir()
    (directory / file.name).write_text(text)
    fresh = file.parent / "..data_tmp"
    fresh.symlink_to(directory.name)
    os.replace(fresh, file.parent / "..data")
    if not file.is_symlink():
        file.unlink(missing_ok=True)
        file.symlink_to(f"..data/{file.name}")


class TestWaiting:
    """Waits of `ma_boot` while a table goes through the states of real writers."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Node:
        return Node(tmp_path)

    @pytest.mark.parametrize("write", [write_torn, swap_link])
    @pytest.mark.parametrize(
        "states",
        [
            ['{"status":"initializing"}', COMPLETED],
            ["", "{", '{"status":7}', COMPLETED],
            [COMPLETED.replace("completed", "initializing"), COMPLETED],
        ],
        ids=["late", "odd", "initializing"],
    )
    def test_wait_ends_with_the_completed_table_of_every_writer(
        self, node: Node, write: Any, states: list[str]
    ) -> None:
        running = node.start(RANK, "print:started")
        eventually(lambda: node.in_phase("rank table"), "the wait")
        for text in states:
            write(node.table, text)
        ended = running.end()
        assert ended.code == 0, ended.output
        assert ended.output.count("started") == 2

    @pytest.mark.parametrize(
        ("stale", "reason"),
        [
            (template_two(3, 2), "completed, but with 3 pods where MA_NUM_HOSTS is 2"),
            (
                fake(2, 2, lambda pod: f"ma-job-test-worker-{pod + 7}"),
                "completed, but this node was not found in the rank table",
            ),
            (fake(2, 2), "completed, but this node was not found in the rank table"),
        ],
        ids=["count", "pod", "job"],
    )
    def test_table_of_an_earlier_attempt_is_ignored(
        self, node: Node, stale: dict[str, Any], reason: str
    ) -> None:
        node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="0", MA_CURRENT_HOST_IP="10.0.0.1")
        node.table.write_text(json.dumps(stale))
        running = node.start(RANK, "print:started")
        eventually(lambda: node.in_phase("rank table"), "the wait")
        time.sleep(0.2)
        assert node.in_phase("rank table")
        node.complete_table(pods=2)
        ended = running.end()
        assert ended.code == 0, ended.output
        assert reason in ended.output

    def test_first_completed_table_is_used(self, node: Node) -> None:
        node.complete_table()
        running = node.start(RANK, f"await:{node.root}/go", "print:started")
        eventually(lambda: node.in_phase("run"), "the training")
        node.table.write_text('{"status":"initializing"}')
        (node.root / "go").touch()
        assert running.end().code == 0

    def test_a_timeout_reports_the_last_reason_and_the_age(self, node: Node) -> None:
        node.table.write_text('{"status":"initializing"}')
        os.utime(node.table, (time.time() - 100, time.time() - 100))
        ended = node.boot("--rank-table-timeout", "0.1", RANK)
        assert ended.code == 75
        assert re.search(r'status is "initializing" \(last written 1\d\d s ago\)', ended.output), ended.output

    def test_two_pods_on_one_server_start_their_own_devices(self, node: Node) -> None:
        node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="1", MA_CURRENT_HOST_IP="10.0.0.1")
        node.index = 1
        document = template_two(2, 2)
        first, second = document["group_list"][0]["instance_list"]
        second["server_id"] = first["server_id"]
        for device in second["devices"]:
            device["device_id"] = str(int(device["device_id"]) + 2)
        node.table.write_text(json.dumps(document))
        ended = node.boot(RANK, "print:started")
        assert ended.code == 0, ended.output
        assert sorted(line[:8] for line in ended.output.splitlines() if "started" in line) == [
            "[rank 2]",
            "[rank 3]",
        ]
        written = json.loads((node.home / "rank_table" / "jobstart_hccl.json").read_text())
        assert [len(server["device"]) for server in written["server_list"]] == [4]

    def test_variable_may_name_a_file(self, node: Node) -> None:
        node.complete_table()
        node.variables["RANK_TABLE_FILE"] = str(node.table.rename(node.root / "mine.json"))
        assert node.boot(RANK).code == 0

    def test_a_completed_table_in_template_one_is_used(self, node: Node, tmp_path: Path) -> None:
        node.variables["RANK_TABLE_FILE_V_1_0"] = single(tmp_path, "ready.json", "10.0.0.1", devices=2)
        ended = node.boot(RANK, "print:started")
        assert ended.code == 0, ended.output
        assert "ranks 0-1, world size 2" in ended.output

    def test_table_of_version_2_is_passed_through(self, node: Node) -> None:
        document = {"status": "completed", "version": "2.0", "rank_count": 2, "rank_list": [{"rank_id": 0}]}
        node.table.write_text(json.dumps(document))
        assert node.boot(RANK).code == 0
        assert json.loads((node.home / "rank_table" / "jobstart_hccl.json").read_text()) == document

    def test_product_rules_and_rank_order_are_set_by_variables(self, node: Node) -> None:
        node.complete_table()
        node.variables.update(MABOOT_PRODUCT="910a", MABOOT_RANK_ORDER="server", MABOOT_HOST_NIC_IP="reserve")
        ended = node.boot(RANK)
        assert ended.code == 0, ended.output
        assert '"host_nic_ip": "reserve"' in (node.home / "rank_table" / "jobstart_hccl.json").read_text()
        three = Node(node.root / "three", devices=3, variables={"MABOOT_PRODUCT": "910a"})
        three.complete_table()
        assert three.boot(RANK).code == 65


class TestFrozenMount:
    """A ConfigMap with `subPath`, whose file is never updated."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> Path:
        if shutil.which("bwrap") is None:
            unavailable("no bwrap (Debian: bubblewrap)")
        (tmp_path / "of the map.json").write_text('{"status": "initializing"}')
        (tmp_path / "user config").mkdir()
        table = tmp_path / "user config" / "jobstart_hccl.json"
        table.write_text("")
        return table

    def waits(self, table: Path, *command: str) -> list[Run]:
        """The command with the mount, and without it."""
        source = table.parent.parent / "of the map.json"
        mounted = ("bwrap", "--dev-bind", "/", "/", "--bind", str(source), str(table), *command)
        return [run(*mounted), run(*command)]

    def test_is_reported_at_the_end(self, table: Path) -> None:
        wait = ("-m", "ma_boot", "rank-table", "wait", "--timeout", "0.1", str(table))
        mounted, plain = self.waits(table, sys.executable, *wait)
        assert (mounted.code, plain.code) == (75, 75), (mounted, plain)
        assert "is mounted by itself, so a later table does not reach this container" in mounted.errors
        assert "mounted by itself" not in plain.errors

    def test_is_reported_once_during_a_long_wait(self, table: Path) -> None:
        """With another time here: a minute is long for a test."""
        program = (
            "import sys, time\n"
            "from ma_boot.platform.modelarts import rank_table_file as waiting\n"
            "assert waiting.ALONE_SECONDS == 60\n"
            "waiting.ALONE_SECONDS, started = 0.3, time.monotonic()\n"
            "say = lambda text: print(f'{time.monotonic() - started:.1f}', text, flush=True)\n"
            "waiting.wait_until_completed(sys.argv[1], 1.0, sleep=time.sleep, check=lambda: None, say=say)\n"
        )
        mounted, plain = self.waits(table, sys.executable, "-c", program, str(table))
        (line,) = [line for line in mounted.output.splitlines() if "mounted by itself" in line]
        assert line.endswith("if that is a ConfigMap with subPath: mount its directory")
        assert 0.3 <= float(line.split()[0]) < 1.0
        assert "waiting for" in plain.output
        assert "mounted by itself" not in plain.output
