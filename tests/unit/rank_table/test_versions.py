"""Tables of other producers than ModelArts: their versions, their packing, and who is who in them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ma_boot.errors import ConfigError
from ma_boot.platform.rank_table import (
    Identity,
    NotYet,
    completed_document,
    convert,
    errors,
    own_pod,
    parse,
    validate,
)
from tests.unit.rank_table.documents import servers
from tests.unit.rank_table.writers import packed


def super_pods(document: dict[str, Any]) -> dict[str, Any]:
    """The table with each server in a super pod of its own, as of a HyperJob."""
    pods = [
        {"super_pod_id": f"hj-train-{i}", "server_list": [{"server_id": server["server_id"]}]}
        for i, server in enumerate(document["server_list"])
    ]
    return {**document, "super_pod_list": pods}


class TestVersion:
    """What is written for HCCL, which knows 1.0, 1.1 and 1.2."""

    @pytest.mark.parametrize("version", ["1.3", "1.4", "v1", "v2", "", None])
    @pytest.mark.parametrize("pods", [False, True])
    def test_version_is_written_as_one_that_hccl_reads(self, version: str | None, pods: bool) -> None:
        document = servers(version=version, data_version=4)
        table = parse(super_pods(document) if pods else document)
        assert errors(validate(table)) == []
        written = convert(table).document
        assert written["version"] == ("1.2" if pods else "1.0")
        assert written["data_version"] == 4
        assert {**written, "version": version} == table.document

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    def test_version_that_hccl_reads_stays_without_a_warning(self, version: str) -> None:
        table = parse(servers(version=version))
        assert [finding for finding in validate(table, "910b") if finding.path == "version"] == []
        assert convert(table) is table

    def test_unknown_version_is_passed_through_with_a_warning(self) -> None:
        table = parse(servers(version="7.5"))
        warning = (
            'version: found \'7.5\', expected "1.0", "1.1" or "1.2", which HCCL reads; it is left as it is'
        )
        assert warning in map(str, validate(table, "910b"))
        assert convert(table) is table

    def test_no_version_is_one_without_super_pods(self) -> None:
        document = servers()
        del document["version"]
        assert convert(parse(document)).document["version"] == "1.0"

    def test_empty_list_of_super_pods_is_left_out(self) -> None:
        table = parse(servers(version="1.2", super_pod_list=[]))
        assert errors(validate(table, "910b")) == []
        assert "super_pod_list" not in convert(table).document

    @pytest.mark.parametrize("key", ["data_version", "data_Version"])
    def test_the_counter_of_writes_is_a_number_and_no_fault(self, key: str) -> None:
        table = parse(servers(**{key: 4}))
        assert validate(table, "910b") == []
        assert table.document[key] == 4


PACKED = packed(json.dumps(servers()).encode())


class TestPacked:
    """gzip in base64, under the same name."""

    def test_packed_table_is_read_like_any_other(self) -> None:
        assert completed_document(PACKED) == servers()
        assert completed_document(PACKED.decode()) == servers()

    def test_white_space_does_not_matter(self) -> None:
        assert completed_document(b"\n" + PACKED[:40] + b"\n" + PACKED[40:] + b"\n") == servers()

    def test_every_half_is_waited_for(self) -> None:
        for length in range(len(PACKED)):
            assert isinstance(completed_document(PACKED[:length]), NotYet), length

    def test_status_of_a_packed_table_is_checked(self) -> None:
        initializing = {"status": "initializing", "version": "1.0", "server_count": "", "server_list": None}
        assert completed_document(packed(json.dumps(initializing).encode())) == NotYet(
            'status is "initializing"'
        )

    def test_a_small_file_does_not_fill_the_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ma_boot.platform.rank_table.read.LARGEST", 1000)
        state = completed_document(packed(json.dumps(servers(40)).encode()))
        assert isinstance(state, NotYet)
        assert "more than 1000 bytes when unpacked" in state.reason


def test_completed_table_without_servers_is_not_ready() -> None:
    state = completed_document(json.dumps({"status": "completed", "version": "1.0", "server_list": None}))
    assert state == NotYet('status is "completed", but server_list is null')


def test_the_status_of_clusterd_is_written_as_hccl_reads_it() -> None:
    document = completed_document(json.dumps(servers(status="complete")))
    assert not isinstance(document, NotYet)
    assert convert(parse(document)).document == servers()


def uids() -> dict[str, Any]:
    """MindCluster's table of two pods on one node."""
    document = servers(2, 1)
    for pod, server in enumerate(document["server_list"]):
        server.update(server_id=f"6f1c0a2e-{pod}", host_ip="10.0.0.1", container_ip=f"172.16.0.{pod + 4}")
        server["device"][0]["device_id"] = str(pod)
    return document


def swapped() -> dict[str, Any]:
    """The table after both pods were restarted on each other's server."""
    document = servers()
    document["server_list"].reverse()
    return document


def merged_pods() -> dict[str, Any]:
    """Two pods on the same server, and one on another; the first server has four cards."""
    document = servers(2, 2)
    document["server_list"][0]["device"] = [
        {"device_id": str(device), "device_ip": f"29.{device}.0.1", "rank_id": str(device)}
        for device in range(4)
    ]
    for rank, device in enumerate(document["server_list"][1]["device"], start=4):
        device["rank_id"] = str(rank)
    return document


@pytest.mark.parametrize(
    ("document", "who", "ranks"),
    [
        (swapped(), Identity(addresses=("10.0.0.2",), number=1, nodes=2), [2, 3]),  # by address, not by place
        (swapped(), Identity(number=1, nodes=2), [0, 1]),
        (servers(), Identity(addresses=("172.16.0.9", "10.0.0.2")), [2, 3]),
        (uids(), Identity(uid="6f1c0a2e-1"), [1]),
        (uids(), Identity(addresses=("10.0.0.1", "172.16.0.5")), [1]),  # the host's address is that of both
        (uids(), Identity(devices=frozenset({1})), [1]),
        (merged_pods(), Identity(addresses=("10.0.0.1",), devices=frozenset({2, 3}), nodes=3), [2, 3]),
        (merged_pods(), Identity(addresses=("10.0.0.2",), devices=frozenset({0, 1}), nodes=3), [4, 5]),
        (merged_pods(), Identity(addresses=("10.0.0.2",), device_count=2, nodes=3), [4, 5]),
    ],
)
def test_pods_without_names_are_found_by_place_and_address(
    document: dict[str, Any], who: Identity, ranks: list[int]
) -> None:
    assert [device.rank for device in own_pod(parse(document), who).devices] == ranks


@pytest.mark.parametrize(
    ("document", "who"),
    [
        (servers(), Identity()),
        (servers(), Identity(number=0, nodes=1)),  # more servers than nodes: never the first
        (merged_pods(), Identity(number=1, nodes=3)),  # pods share a server: places do not count
        (uids(), Identity(number=1, nodes=2)),  # MindCluster numbers its pods by itself
        (uids(), Identity(addresses=("10.0.0.1",))),
        (
            servers(),
            Identity(number=1, nodes=2, devices=frozenset({6, 7})),
        ),  # cards that this container has not
        (merged_pods(), Identity(addresses=("10.0.0.1",), device_count=2, nodes=3)),
        (servers(1, 4), Identity(number=1, nodes=2)),
    ],
)
def test_unknown_pod_is_not_guessed(document: dict[str, Any], who: Identity) -> None:
    with pytest.raises(ConfigError, match=r"known|not found in"):
        own_pod(parse(document), who)


def test_unpacking_and_converting_change_nothing_of_the_original() -> None:
    document = super_pods(servers(version="1.3"))
    before = copy.deepcopy(document)
    convert(parse(document))
    assert document == before
