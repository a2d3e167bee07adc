"""What Volcano's controllers write beside a rank table, in `ma_boot rank-table show` and `validate`."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ma_boot.rank_table import WRITERS
from tests.functional.cli.test_rank_table_commands import tool


def switches(document: Dict[str, Any]) -> Dict[str, Any]:
    """The file of switches of a table, as Volcano's controller writes it: its status stays as it is here."""
    listed = [
        {
            "pod_name": f"job-train-{node}",
            "server_id": server["server_id"],
            "device": [
                {
                    "device_id": device["device_id"], "device_ip": device["device_ip"], "rank_id": "",
                    "tor_ip": f"10.9.0.{node}", "tor_port": f"eth{device['device_id']}",
                }
                for device in server["device"]
            ],
        }
        for node, server in enumerate(document["server_list"])
    ]  # fmt: skip
    count = {"server_count": str(len(listed))}
    return {"status": "initializing", "version": "1.0", **count, "server_list": listed}


def packed(document: Dict[str, Any]) -> bytes:
    return base64.b64encode(gzip.compress(json.dumps(document).encode()))


class Mount:
    """`/user/config` of a pod: the table of one cluster, and what is beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.document = WRITERS["volcano"].document(2, 2)
        self.tor = switches(self.document)
        self.of_all = WRITERS["volcano-global"].document(4, 2)
        for one, other in zip(self.of_all["server_list"][2:], self.document["server_list"]):
            one.update(server_id=other["server_id"])
            for here, there in zip(one["device"], other["device"]):
                here["device_ip"] = there["device_ip"]
        for number, one in enumerate(self.of_all["server_list"][:2]):
            one["server_id"] = f"10.5.0.{number}"
            for here in one["device"]:
                here["device_ip"] = f"10.6.{number}.{here['device_id']}"
        for pod, one in zip(self.of_all["super_pod_list"], self.of_all["server_list"]):
            pod["server_list"] = [{"server_id": one["server_id"]}]

    def write(self) -> str:
        """Writes the files as they are, and returns the table's name."""
        (self.root / "global-ranktable").mkdir(exist_ok=True)
        (self.root / "ranktable_tor.json").write_bytes(packed(self.tor))
        (self.root / "global-ranktable" / "jobstart_hccl.json").write_text(json.dumps(self.of_all))
        table = self.root / "jobstart_hccl.json"
        table.write_text(json.dumps(self.document))
        return str(table)


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


def test_show_has_pods_switches_and_the_ranks_over_all_clusters(mount: Mount) -> None:
    shown = tool("show", mount.write())
    assert shown.code == 0, shown.errors
    lines = [line.split() for line in shown.output.splitlines()]
    base = ["rank", "pod", "server_id", "device_id", "device_ip"]
    assert lines[0] == [*base, "tor_ip", "tor_port", "global_rank"]
    assert lines[4] == ["3", "job-train-1", "192.168.0.2", "1", "192.2.0.2", "10.9.0.1", "eth1", "7"]
    found = json.loads(tool("show", "--json", mount.write()).output)
    assert [row["global_rank"] for row in found] == [4, 5, 6, 7]


def test_a_table_alone_is_shown_as_before(mount: Mount) -> None:
    table = mount.write()
    alone = tool("show", "-", given=Path(table).read_text())
    assert alone.output.splitlines()[0].split() == ["rank", "pod", "server_id", "device_id", "device_ip"]


@pytest.mark.parametrize("in_base64", [True, False])
def test_the_file_of_switches_is_shown_and_valid_by_itself(mount: Mount, in_base64: bool) -> None:
    mount.write()
    file = mount.root / "ranktable_tor.json"
    if not in_base64:
        file.write_text(json.dumps(mount.tor))
    lines = [line.split() for line in tool("show", str(file)).output.splitlines()]
    assert lines[1] == ["-", "job-train-0", "192.168.0.1", "0", "192.1.0.1", "10.9.0.0", "eth0"]
    assert tool("validate", str(file)).output == "valid\n"
    for words in (["convert"], ["merge"], ["diff", str(file)]):
        refused = tool(*words, str(file))
        assert refused.code == 65
        assert "it is the file of switches (ranktable_tor.json)" in refused.errors


def test_what_is_right_beside_a_table_is_no_finding(mount: Mount) -> None:
    found = tool("validate", "--product", "910b", mount.write())
    assert (found.code, found.output) == (0, "valid\n")


def warnings(mount: Mount) -> List[str]:
    """What `validate` says of the table, which is right, and so no error."""
    found = tool("validate", "--product", "910b", mount.write())
    assert found.code == 0, found.output
    assert all(line.startswith("warning: ") for line in found.output.splitlines()), found.output
    return [line[len("warning: ") :] for line in found.output.splitlines()]


def test_a_server_that_only_one_of_them_has_is_a_warning(mount: Mount) -> None:
    mount.tor["server_list"][1]["server_id"] = "192.168.0.9"
    mount.of_all["server_list"][3]["server_id"] = "10.5.0.3"
    mount.of_all["super_pod_list"][3]["server_list"] = [{"server_id": "10.5.0.3"}]
    found = warnings(mount)
    assert [one.partition(", expected")[0] for one in found] == [
        "ranktable_tor.json: server_list: found no server 192.168.0.2",
        "ranktable_tor.json: server_list: found server 192.168.0.9",
        "global-ranktable/jobstart_hccl.json: server_list: found no server 192.168.0.2",
    ]
    assert found[0].endswith("one of the two files is of an earlier attempt")


def test_an_address_that_differs_is_a_warning(mount: Mount) -> None:
    mount.tor["server_list"][0]["device"][1]["device_ip"] = "192.2.0.99"
    (found,) = warnings(mount)
    assert found.startswith(
        "ranktable_tor.json: server 192.168.0.1, device 1.device_ip: found 192.2.0.99, expected 192.2.0.1"
    )


def test_a_file_that_is_wrong_itself_is_a_warning_beside_and_an_error_alone(mount: Mount) -> None:
    mount.tor["server_list"][1]["pod_name"] = "job-train-0"
    mount.tor["server_list"][0]["device"][0]["tor_ip"] = "rack 7"
    assert warnings(mount)[0].startswith(
        "ranktable_tor.json: pod_name: found job-train-0 2 times, expected unique values"
    )
    alone = tool("validate", str(mount.root / "ranktable_tor.json"))
    assert alone.code == 65
    assert "error: pod_name: found job-train-0 2 times" in alone.output
    assert "warning: job-train-0, device 0.tor_ip: found 'rack 7', expected an IPv4" in alone.output


def test_a_file_that_is_not_whole_is_a_warning(mount: Mount) -> None:
    mount.of_all["status"] = "initializing"
    table = mount.write()
    tor = mount.root / "ranktable_tor.json"
    tor.write_bytes(tor.read_bytes()[:40])
    found = tool("validate", "--product", "910b", table)
    assert found.code == 0
    assert "warning: ranktable_tor.json: $: found " in found.output
    assert 'jobstart_hccl.json: status is "initializing", expected a completed file' in found.output
    assert tool("show", table).code == 0


def test_clusters_and_super_pods_of_the_table_of_all_clusters(mount: Mount) -> None:
    pods = mount.of_all["cluster_list"][0]["super_pod_list"]
    pods[3] = {"super_pod_id": "job-fake-train-2"}
    pods.append({"super_pod_id": "other"})
    mount.write()
    found = tool("validate", "--product", "a3", str(mount.root / "global-ranktable" / "jobstart_hccl.json"))
    assert found.code == 0, found.output
    for text in ("super pod job-fake-train-2 2 times", "super pod other, expected one of super_pod_list",
                 "no super pod job-fake-train-3, expected every super pod"):  # fmt: skip
        assert f"warning: cluster_list: found {text}" in found.output
