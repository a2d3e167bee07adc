"""Tables merged, compared, listed and made."""

from __future__ import annotations

from typing import Any

import pytest

from ma_boot.platform.rank_table import (
    SuperPod,
    errors,
    fake,
    machine_table,
    merged,
    moved,
    parse,
    rows,
    validate,
)


def one_server(server: str, *devices: int, super_pod: str = "") -> dict[str, Any]:
    """The document of a single server with these cards, the last card listed first."""
    cards = [
        {"device_id": str(device), "device_ip": f"192.{device}.0.1", "rank_id": str(rank)}
        for rank, device in enumerate(devices)
    ]
    document = {
        "status": "completed",
        "version": "1.2" if super_pod else "1.0",
        "server_count": "1",
        "server_list": [{"server_id": server, "device": cards[::-1]}],
    }
    if super_pod:
        pod = {"super_pod_id": super_pod, "server_list": [{"server_id": server}]}
        document["super_pod_list"] = [pod]
    return document


def ranks(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        server["server_id"]: [f"{card['device_id']}:{card['rank_id']}" for card in server["device"]]
        for server in document["server_list"]
    }


class TestMerged:
    """One table of several."""

    def test_servers_in_natural_order_with_ranks_from_0(self) -> None:
        document, findings = merged(
            [parse(one_server(server, 4, 6)) for server in ("10.0.0.10", "10.0.0.9", "a")]
        )
        assert list(ranks(document).items()) == [
            ("10.0.0.9", ["4:0", "6:1"]),
            ("10.0.0.10", ["4:2", "6:3"]),
            ("a", ["4:4", "6:5"]),
        ]
        assert findings == []
        assert (document["version"], document["server_count"]) == ("1.0", "3")
        assert "super_pod_list" not in document

    def test_numbers_come_before_words(self) -> None:
        document, _ = merged([parse(one_server(server, 0)) for server in ("b-1", "0-1", "b")])
        assert list(ranks(document)) == ["0-1", "b", "b-1"]

    def test_super_pods_are_joined(self) -> None:
        tables = [
            one_server("10.0.0.3", 0, super_pod="1"),
            one_server("10.0.0.1", 1, super_pod="0"),
            one_server("10.0.0.2", 2),
        ]
        tables[2]["super_pod_list"] = [{"super_pod_id": "0", "server_list": [{"server_id": "10.0.0.2"}]}]
        document, findings = merged([parse(table) for table in tables])
        assert document["version"] == "1.2"
        assert document["super_pod_list"] == [
            {"super_pod_id": "0", "server_list": [{"server_id": "10.0.0.1"}, {"server_id": "10.0.0.2"}]},
            {"super_pod_id": "1", "server_list": [{"server_id": "10.0.0.3"}]},
        ]
        assert findings == []

    def test_a_server_twice_and_another_template_are_findings(self) -> None:
        _, findings = merged(
            [parse(one_server("10.0.0.1", 0)), parse(fake(1, 1)), parse(one_server("10.0.0.1", 1))]
        )
        assert list(map(str, findings)) == [
            "table 2: found version two, expected 1.0 or 1.2",
            "server_list: found server 10.0.0.1 in two tables, expected each server once",
        ]


def test_ranks_with_another_place_are_listed() -> None:
    before, after = parse(one_server("10.0.0.1", 4, 6)), parse(one_server("10.0.0.1", 4, 5, 6))
    assert moved(before, before) == []
    assert moved(before, after) == [
        "rank 1: server 10.0.0.1 device 6 (192.6.0.1) -> server 10.0.0.1 device 5 (192.5.0.1)",
        "rank 2: nowhere -> server 10.0.0.1 device 6 (192.6.0.1)",
    ]
    assert moved(after, before)[-1] == "rank 2: server 10.0.0.1 device 6 (192.6.0.1) -> nowhere"


def test_the_table_of_a_machine() -> None:
    document = machine_table("10.0.0.1", {6: "192.6.0.1", 4: "192.4.0.1"})
    assert ranks(document) == {"10.0.0.1": ["4:0", "6:1"]}
    assert (document["version"], document["status"]) == ("1.0", "completed")
    assert errors(validate(parse(document))) == []


def test_the_table_of_a_server_in_a_super_pod_has_its_cards_without_addresses_too() -> None:
    document = machine_table("10.0.0.1", {6: "192.6.0.1"}, SuperPod("7", {4: "44", 6: "66"}))
    assert document["version"] == "1.2"
    (server,) = document["server_list"]
    assert server["device"] == [
        {"device_id": "4", "super_device_id": "44", "rank_id": "0"},
        {"device_id": "6", "super_device_id": "66", "device_ip": "192.6.0.1", "rank_id": "1"},
    ]


def test_rows_are_in_the_order_of_ranks_also_where_servers_interleave() -> None:
    document = one_server("10.0.0.1", 0, 1)
    document["server_list"] += one_server("10.0.0.2", 0, 1)["server_list"]
    for server, numbers in enumerate((["2", "0"], ["3", "1"])):
        for card, rank in zip(document["server_list"][server]["device"], numbers):
            card["rank_id"] = rank
    places = [(row["rank"], row["server_id"], row["device_id"]) for row in rows(parse(document))]
    assert places == [(0, "10.0.0.1", "0"), (1, "10.0.0.2", "0"), (2, "10.0.0.1", "1"), (3, "10.0.0.2", "1")]


def test_rows_without_ranks_stay_in_the_order_of_the_file() -> None:
    listed = rows(parse(fake(2, 2)))
    assert [(row["rank"], row["pod"], row["device_id"]) for row in listed] == [
        (None, "ma-job-fake-worker-1", "0"),
        (None, "ma-job-fake-worker-1", "1"),
        (None, "ma-job-fake-worker-0", "0"),
        (None, "ma-job-fake-worker-0", "1"),
    ]


@pytest.mark.parametrize(
    ("node", "server", "address"),
    [
        (0, "192.168.0.1", "192.1.0.1"),
        (249, "192.168.0.250", "192.1.0.250"),
        (250, "192.168.1.1", "192.1.1.1"),
    ],
)
def test_the_addresses_of_a_fake(node: int, server: str, address: str) -> None:
    pods = fake(251, 2)["group_list"][0]["instance_list"][::-1]
    assert pods[node]["server_id"] == server
    assert [card["device_ip"] for card in pods[node]["devices"]] == [
        address,
        address.replace("192.1", "192.2", 1),
    ]


@pytest.mark.parametrize(
    ("addresses", "shown"),
    [
        ([("EID", "e0"), ("EID", "e1"), ("IPV4", "10.0.0.1")], "10.0.0.1"),
        ([("IPV4", "10.0.0.1"), ("EID", "e1"), ("IPV6", "fd00::1")], "fd00::1"),
        ([("EID", "e0"), ("EID", "e1")], "e0"),
        ([], None),
    ],
)
def test_version_2_is_shown_with_the_address_between_servers(
    addresses: list[tuple[str, str]], shown: str | None
) -> None:
    levels = [
        {"net_layer": layer, "rank_addr_list": [{"addr_type": kind, "addr": address}]}
        for layer, (kind, address) in enumerate(addresses)
    ]
    rank = {"rank_id": 0, "device_id": 3, "level_list": levels}
    document = {"status": "completed", "version": "2.0", "rank_count": 1, "rank_list": [rank]}
    assert [row["device_ip"] for row in rows(parse(document))] == [shown]
