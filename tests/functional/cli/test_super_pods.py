"""`ma_boot rank-table generate --version 1.2`: the table of a machine in a super pod of A3s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.cli.rank_table_tool import tool

NPU_SMI = """#!/bin/sh
if [ "$*" = "info -m" ]; then
    echo "NPU ID        Chip ID       Chip Logic ID   Chip Phy-ID    Chip Name"
    for npu in 0 1; do
        echo "$npu             0             $((npu * 2))               $((npu * 2))              Ascend910"
        echo "$npu             1             $((npu * 2 + 1))               $((npu * 2 + 1))              Ascend910"
        echo "$npu             2             -               -              Mcu"
    done
elif [ "$1 $2 $3 $4 $6" = "info -t spod-info -i -c" ]; then
    echo "SDID : $((SERVER * 16777216 + $5 * 65536 + $7 * 65538))"
    echo "Super Pod Size : 384"
    echo "Super Pod ID : SUPER_POD"
    echo "Server Index : 4"
else
    exit 1
fi
"""  # as in Huawei's documents: there is no A3 here


def super_pod_of(tmp_path: Path, server: int, super_pod: str = "3") -> dict[str, Any]:
    """The table that a machine of a super pod generates."""
    tools = tmp_path / f"tools-{server}"
    tools.mkdir()
    script = NPU_SMI.replace("SUPER_POD", super_pod).replace("SERVER", str(server))
    (tools / "npu-smi").write_text(script)
    (tools / "npu-smi").chmod(0o755)
    words = ("generate", "--version", "1.2", "--server-id", f"10.0.0.{server}", "--hccn-conf", "/no/such")
    made = tool(*words, path=f"{tools}:/usr/bin:/bin")
    assert made.code == 0, made.errors
    document: dict[str, Any] = json.loads(made.output)
    return document


def test_generate_writes_version_1_2_for_a_super_pod(tmp_path: Path) -> None:
    """Cards inside a super pod need no address."""
    document = super_pod_of(tmp_path, 1)
    assert (document["version"], document["server_count"]) == ("1.2", "1")
    assert document["server_list"][0]["device"] == [
        {"device_id": str(card), "super_device_id": str(sdid), "rank_id": str(card)}
        for card, sdid in enumerate((16777216, 16842754, 16842752, 16908290))
    ]
    assert document["super_pod_list"] == [{"super_pod_id": "3", "server_list": [{"server_id": "10.0.0.1"}]}]


def test_merge_orders_super_pods_by_their_ids(tmp_path: Path) -> None:
    files = []
    for server, super_pod in ((1, "3"), (2, "3"), (3, "4")):
        files.append(str(tmp_path / f"{server}.json"))
        Path(files[-1]).write_text(json.dumps(super_pod_of(tmp_path, server, super_pod)))
    merged = json.loads(tool("merge", *files[:2]).output)
    assert tool("validate", "--product", "a3", "-", given=json.dumps(merged)).code == 0
    (both,) = merged["super_pod_list"]
    assert [server["server_id"] for server in both["server_list"]] == ["10.0.0.1", "10.0.0.2"]
    assert len(json.loads(tool("merge", *files).output)["super_pod_list"]) == 2


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        (None, 66, "no npu-smi on PATH: it shows the super pod"),
        ("#!/bin/sh\nexit 1\n", 78, "npu-smi info -m does not show any card; found: []"),
        (
            NPU_SMI.replace("SDID", "x"),
            78,
            "expected SDID and Super Pod ID of an A3, found x : 16777216 Super",
        ),
        (NPU_SMI.replace("SUPER_POD", "$5"), 78, "the cards are in the super pods 0, 1: expected one"),
    ],
    ids=["no tool", "no card", "no super pod", "two super pods"],
)
def test_generate_explains_a_missing_super_pod(
    tmp_path: Path, script: str | None, code: int, message: str
) -> None:
    if script is not None:
        (tmp_path / "npu-smi").write_text(script.replace("SERVER", "1"))
        (tmp_path / "npu-smi").chmod(0o755)
    words = ("generate", "--version", "1.2", "--server-id", "x", "--hccn-conf", "/no/such")
    ended = tool(*words, path=f"{tmp_path}:/usr/bin:/bin")
    assert (ended.code, message in ended.errors) == (code, True), ended.errors
