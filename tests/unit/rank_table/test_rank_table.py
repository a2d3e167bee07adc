"""Rank tables, as the platform documents them and as they may come instead."""

from __future__ import annotations

import copy
import ipaddress
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.errors import ConfigError
from ma_boot.platform.rank_table import (
    Identity,
    NotYet,
    TableFinding,
    Unreadable,
    completed_document,
    convert,
    errors,
    fake,
    own_pod,
    parse,
    validate,
)
from ma_boot.platform.rank_table.table import address_family
from tests.unit.rank_table.documents import KEYS, TEMPLATE_ONE, VALUES, a3, use

# One pod with one card, whose device_id is its number on the server.
SAMPLE: dict[str, Any] = {
    "group_count": "1",
    "group_list": [
        {
            "device_count": "1",
            "group_name": "job-flowers",
            "instance_count": "1",
            "instance_list": [
                {
                    "devices": [{"device_id": "4", "device_ip": "192.5.10.21"}],
                    "pod_name": "job7c0ffee-job-flowers-0",
                    "server_id": "172.16.4.9",
                }
            ],
        }
    ],
    "status": "completed",
}

SAMPLE_AS_ONE = """{
  "status": "completed",
  "version": "1.0",
  "server_count": "1",
  "server_list": [
    {
      "server_id": "172.16.4.9",
      "device": [
        {
          "device_id": "4",
          "device_ip": "192.5.10.21",
          "rank_id": "0"
        }
      ]
    }
  ]
}
"""


def instance(number: int, server: str, devices: int = 1, name: str = "") -> dict[str, Any]:
    """A pod, as the platform writes it."""
    ips = [{"device_id": str(d), "device_ip": f"192.{number}.0.{d + 1}"} for d in range(devices)]
    return {"pod_name": name or f"job-{number}", "server_id": server, "devices": ips}


def template_two(*groups: list[dict[str, Any]]) -> dict[str, Any]:
    """A completed table of these groups of pods, its counts right."""
    return {
        "status": "completed",
        "group_count": str(len(groups)),
        "group_list": [
            {
                "instance_count": str(len(group)),
                "device_count": str(sum(len(pod["devices"]) for pod in group)),
                "instance_list": group,
            }
            for group in groups
        ],
    }


def text(findings: Sequence[TableFinding]) -> str:
    return "\n".join(map(str, findings))


class TestConvert:
    """Template two to template one."""

    def test_the_platforms_layout_byte_for_byte(self) -> None:
        assert convert(parse(SAMPLE)).dumps() == SAMPLE_AS_ONE

    def test_servers_are_in_the_order_of_the_ranks(self) -> None:
        pods = [instance(1, "10.19.1.79", 8), instance(0, "10.19.1.142", 8)]
        servers = convert(parse(template_two(pods))).document["server_list"]
        assert [server["server_id"] for server in servers] == ["10.19.1.142", "10.19.1.79"]

    @pytest.mark.parametrize(
        ("groups", "rank_order", "order"),
        [
            ([[instance(1, "a"), instance(0, "b")]], "pod", ["job-0", "job-1"]),  # not by file or server
            ([[instance(10, "a"), instance(2, "b")]], "pod", ["job-2", "job-10"]),
            ([[instance(2, "c")], [instance(0, "a"), instance(1, "b")]], "pod", ["job-0", "job-1", "job-2"]),
            ([[instance(1, "a", name="b-1"), instance(1, "b", name="a-1")]], "pod", ["a-1", "b-1"]),
            ([[instance(0, "10.0.0.9"), instance(1, "10.0.0.10")]], "server", ["job-1", "job-0"]),  # as HCCL
        ],
    )
    def test_ranks_are_numbered_through_in_this_order(
        self, groups: list[list[dict[str, Any]]], rank_order: str, order: list[str]
    ) -> None:
        table = convert(parse(template_two(*groups)), rank_order)
        ranks = {device.rank: pod.name for pod in table.pods for device in pod.devices}
        assert [ranks[rank] for rank in range(len(order))] == order

    @pytest.mark.parametrize("rank_order", ["pod", "server"])
    def test_the_two_orders_differing_is_a_warning(self, rank_order: str) -> None:
        table = convert(parse(template_two([instance(0, "10.0.0.9"), instance(1, "10.0.0.10")])), rank_order)
        assert "by server_id, as HCCL would read the table" in text(table.findings)
        assert errors(table.findings) == []

    @pytest.mark.parametrize(
        ("pods", "shown"), [(3, "job-2, job-1, job-0 by"), (4, "job-3, job-2, job-1, ... by")]
    )
    def test_a_warning_names_three_pods(self, pods: int, shown: str) -> None:
        servers = [instance(number, f"10.0.0.{9 - number}") for number in range(pods)]
        assert f"expected {shown} server_id" in text(convert(parse(template_two(servers))).findings)

    def test_a_pod_without_devices_changes_no_order(self) -> None:
        document = template_two([{**instance(0, "a"), "devices": []}, instance(1, "a")])
        assert text(convert(parse(document)).findings) == ""

    def test_two_pods_of_a_server_are_one_server_and_stay_two_pods(self) -> None:
        document = template_two([instance(0, "a"), {**instance(1, "a"), "devices": [{"device_id": "5"}]}])
        table = convert(parse(document))
        assert table.document["server_count"] == "1"
        assert [len(pod.devices) for pod in table.pods] == [1, 1]

    def test_unknown_fields_and_ports_are_kept(self) -> None:
        pod = {**instance(0, "a"), "zone": "z", "devices": [{"device_id": "0", "device_port": "16666"}]}
        server = convert(parse(template_two([pod]))).document["server_list"][0]
        assert server["zone"] == "z"
        assert server["device"] == [{"device_id": "0", "device_port": "16666", "rank_id": "0"}]

    def test_host_nic_ip_only_when_asked_for(self) -> None:
        assert "host_nic_ip" not in SAMPLE_AS_ONE
        server = convert(parse(SAMPLE), host_nic_ip="reserve").document["server_list"][0]
        assert server["host_nic_ip"] == "reserve"

    def test_numbers_come_out_as_strings_with_a_warning(self) -> None:
        document = template_two([{**instance(0, "a"), "devices": [{"device_id": 3, "port": 5}]}])
        table = convert(parse(document))
        assert table.document["server_list"][0]["device"] == [{"device_id": "3", "port": "5", "rank_id": "0"}]
        assert 'devices[0].device_id: found the number 3, expected the string "3"' in text(table.findings)


class TestOtherTemplates:
    """Documents that have ranks already, detected by their shape."""

    def test_1_0_stays_as_it_is(self) -> None:
        table = parse(TEMPLATE_ONE)
        assert convert(table) is table
        assert (table.template, table.document) == ("1.0", TEMPLATE_ONE)
        assert [[device.rank for device in pod.devices] for pod in table.pods] == [[0, 1], [2, 3]]

    def test_1_2_and_mindclusters_fields_are_kept(self) -> None:
        document = a3()
        document["server_list"][0].update(host_ip="10.0.0.1", container_ip="10.0.0.2", hardware_type="A3")
        table = parse(document)
        assert (table.template, convert(table).document) == ("1.2", document)
        assert validate(table, "a3") == []

    def test_2_0_is_passed_through(self) -> None:
        document = {"status": "completed", "version": "2.0", "rank_count": 2, "rank_list": [{"rank_id": 0}]}
        table = parse(document)
        assert (table.template, table.world_size, table.document) == ("2.0", 2, document)
        assert validate(table) == []

    def test_devices_come_in_the_order_of_their_ranks(self) -> None:
        document = copy.deepcopy(TEMPLATE_ONE)
        for server in document["server_list"]:
            server["device"].reverse()
        pods = parse(document).pods
        assert [[device.rank for device in pod.devices] for pod in pods] == [[0, 1], [2, 3]]

    def test_characters_that_are_not_ascii_stay(self) -> None:
        assert '"节点"' in parse(changed([*SERVER, "server_id"], "节点", TEMPLATE_ONE)).dumps()


def changed(path: list[Any], value: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The document with another value at a path; None takes the key away."""
    document = copy.deepcopy(document)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


POD: list[Any] = ["group_list", 0, "instance_list", 0]
SERVER: list[Any] = ["server_list", 0]
DEVICE: list[Any] = ["server_list", 0, "device", 0]
EIGHT = fake(2, 8)
A3 = a3()

MUTATIONS = [
    # template two
    (changed(["group_count"], "2", SAMPLE), "group_count: found '2', expected \"1\", as many as are listed (HCCL would report EI0014)"),
    (changed(["group_count"], None, SAMPLE), "group_count: found nothing, expected \"1\", as many as are listed (HCCL would report EI0017)"),
    (changed(["group_list", 0, "instance_count"], "2", SAMPLE), "group_list[0].instance_count: found '2'"),
    (changed(["group_list", 0, "device_count"], "8", SAMPLE), "group_list[0].device_count: found '8'"),
    (changed(["group_list", 0, "device_count"], None, SAMPLE), "group_list[0].device_count: found nothing"),
    (changed(["group_list"], {}, SAMPLE), "group_list: found dict {}, expected a list (HCCL would report EI0017)"),
    (changed(["group_list", 0], "g", SAMPLE), "group_list[0]: found str 'g', expected an object"),
    (changed(["group_list", 0, "instance_list"], None, SAMPLE), "group_list[0].instance_list: found nothing"),
    (changed([*POD], "pod", SAMPLE), "instance_list[0]: found str 'pod', expected an object"),
    (changed([*POD, "server_id"], None, SAMPLE), "instance_list[0].server_id: found nothing"),
    (changed([*POD, "server_id"], 172.16, SAMPLE), "instance_list[0].server_id: found float 172.16, expected"),
    (changed([*POD, "pod_name"], "", SAMPLE), "instance_list[0].pod_name: found an empty string, expected a non-empty"),
    (changed([*POD, "devices"], "x", SAMPLE), "instance_list[0].devices: found str 'x', expected a list"),
    (changed([*POD, "devices", 0, "device_id"], "x", SAMPLE), "device_id: found 'x', expected a number"),
    (changed([*POD, "devices", 0, "device_id"], "²", SAMPLE), "device_id: found '²', expected a number"),
    (changed([*POD, "devices", 0, "device_id"], "9" * 5000, SAMPLE), "expected a number as a string"),
    (changed([*POD, "devices", 0, "device_id"], None, SAMPLE), "devices[0].device_id: found nothing"),
    (changed([*POD, "devices", 0, "device_ip"], "192.1.10", SAMPLE), "device_ip: found '192.1.10', expected an IPv4"),
    (changed([*POD, "devices", 0, "device_ip"], "::1", EIGHT), "device_ip: found ::1 and 192.2.0.2, expected addresses of one"),
    (changed([*POD, "devices", 0, "device_ip"], "192.2.0.2", EIGHT), "device_ip: found 192.2.0.2 2 times"),
    (changed([*POD, "devices", 0, "device_id"], "1", EIGHT), "server 192.168.0.2: device_id: found 1 2 times"),
    (changed([*POD, "pod_name"], "ma-job-fake-worker-0", EIGHT), "pod_name: found ma-job-fake-worker-0 2 times"),
    (template_two(), "$: found no device in the whole table, expected at least one"),
    (changed([*POD, "server_id"], "s" * 65, SAMPLE), "server_id: found 65 characters (ssssssssssssssss...), expected at most 64 (HCCL would report EI0014)"),
    # template one
    (changed(["server_count"], "3", TEMPLATE_ONE), "server_count: found '3', expected \"2\""),
    (changed(["server_count"], None, TEMPLATE_ONE), "server_count: found nothing"),
    (changed([*SERVER, "server_id"], "10.0.0.1", TEMPLATE_ONE), "server_id: found 10.0.0.1 2 times"),
    (changed([*SERVER, "device"], [], TEMPLATE_ONE), "server 10.0.0.0: found no device"),
    (changed([*DEVICE, "rank_id"], "1", TEMPLATE_ONE), "rank_id: found 1 more than once"),
    (changed([*DEVICE, "rank_id"], "4", TEMPLATE_ONE), "rank_id: found no 0, expected each of 0 to 3; Volcano leaves gaps when a job is scaled down"),
    (changed([*DEVICE, "rank_id"], None, TEMPLATE_ONE), "device[0].rank_id: found nothing"),
    (changed([*DEVICE, "rank_id"], "-1", TEMPLATE_ONE), "rank_id: found '-1', expected a number"),
    (changed([*DEVICE, "device_port"], "65536", TEMPLATE_ONE), "device_port: found '65536', expected 1 to 65535"),
    (changed([*DEVICE, "host_port"], "0", TEMPLATE_ONE), "host_port: found '0', expected 1 to 65535"),
    (changed([*DEVICE, "device_id"], "9" * 10, TEMPLATE_ONE), "device_id: found '9999999999', expected a number"),
    ({"version": "2.0", "rank_list": [], "rank_count": 0}, "rank_count: found int 0, expected the number of ranks"),
    (changed(["super_pod_list", 0, "server_list"], ["x"], A3), "super_pod_list[0].server_list: found list, expected a list of objects"),
    ({"status": "completed"}, "$: found no known list, expected group_list (template two)"),
    # 1.2
    (changed([*DEVICE, "super_device_id"], "", A3), "super_device_id: found '', expected an id, or no such field (HCCL would report EI0004)"),
    (changed([*DEVICE, "super_device_id"], "0x1", A3), "super_device_id: found '0x1', expected a number (HCCL would report EI0014)"),
    (changed([*SERVER, "host_ip"], "host-1", TEMPLATE_ONE), "server 10.0.0.0: host_ip: found 'host-1', expected an IPv4 or IPv6 address (HCCL would report EI0014)"),
    (changed([*SERVER, "host_ip"], "::1", TEMPLATE_ONE), "expected addresses of one family"),
    (changed([*DEVICE, "super_device_id"], "1", A3), "super pod 0: super_device_id: found 1 2 times"),
    (changed(["super_pod_list"], "x", A3), "super_pod_list: found str, expected a list of objects"),
    (changed(["super_pod_list", 0, "server_list"], "x", A3), "super_pod_list[0].server_list: found str"),
    (changed(["super_pod_list", 0, "server_list"], [{"server_id": "10.0.0.0"}], A3), "found no server 10.0.0.1, expected every"),
    (changed(["super_pod_list", 0, "server_list", 0, "server_id"], "x", A3), "found server x, expected a server of server_list"),
]  # fmt: skip


def problems(document: dict[str, Any], product: str | None = None) -> list[TableFinding]:
    """Everything fatal about a document."""
    try:
        return errors(validate(parse(document), product))
    except Unreadable as error:
        return list(error.findings)


@pytest.mark.parametrize(("document", "expected"), MUTATIONS)
def test_a_mutation_is_found_and_named(document: dict[str, Any], expected: str) -> None:
    assert expected in text(problems(document))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ([*DEVICE, "super_device_id"], None, "super_device_id: found nothing, expected a number"),
        (["super_pod_list", 0, "super_pod_id"], None, "super_pod_list[0].super_pod_id: found nothing"),
        (["super_pod_list", 0, "super_pod_id"], "", "super_pod_list[0].super_pod_id: found ''"),
    ],
)
def test_an_a3_needs_the_ids_of_its_super_pods(path: list[Any], value: Any, expected: str) -> None:
    assert expected in text(problems(changed(path, value, A3), "a3"))
    assert expected not in text(problems(changed(path, value, A3), "910b"))


def test_empty_host_ip_is_left_out() -> None:
    given = changed([*SERVER, "host_ip"], "", TEMPLATE_ONE)
    assert problems(given) == []
    assert "host_ip" not in convert(parse(given)).document["server_list"][0]


def test_a_device_of_a_server_without_a_pods_name_is_named_by_its_server() -> None:
    wrong = changed([*DEVICE, "device_ip"], "x", TEMPLATE_ONE)
    assert "server 10.0.0.0, device 0.device_ip: found 'x'" in text(problems(wrong))
    wrong = changed([*POD, "devices", 0, "device_ip"], "x", SAMPLE)
    assert "job7c0ffee-job-flowers-0, device 4.device_ip: found 'x'" in text(problems(wrong))


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (Identity(), "nothing"),
        (Identity(number=0), "node 0 of unknown"),
        (Identity(number=1, nodes=2, job="ma-job-x"), "node 1 of 2; job ma-job-x"),
        (
            Identity("p", uid="u", addresses=("10.0.0.1", "10.0.0.2"), devices=frozenset({3, 1})),
            "pod name p; pod uid u; addresses 10.0.0.1, 10.0.0.2; cards 1, 3",
        ),
    ],
)
def test_known_identity_is_described(who: Identity, text: str) -> None:
    assert str(who) == text


def test_a_wrong_structure_hides_no_wrong_value() -> None:
    document = changed([*POD, "pod_name"], "", EIGHT)
    document = changed(["group_list", 0, "device_count"], "17", document)
    document = changed([*POD, "devices", 0, "device_ip"], "nowhere", document)
    assert [finding.path.rpartition(".")[2] for finding in problems(document)] == [
        "pod_name",
        "device_count",
        "device_ip",
    ]


def test_a_wrong_part_hides_no_mistake_of_the_next_one() -> None:
    document = template_two([instance(0, "a")], [instance(1, "b")])
    document["group_list"][0]["instance_list"] = None
    document["group_list"][1]["instance_count"] = "7"
    assert "group_list[1].instance_count: found '7'" in text(problems(document))
    document = changed([*POD, "devices", 1, "device_ip"], "nowhere", EIGHT)
    del document["group_list"][0]["instance_list"][0]["devices"][0]["device_ip"]
    assert "device_ip: found 'nowhere', expected an IPv4" in text(problems(document))
    document = changed(["super_pod_list", 0, "server_list"], None, A3)
    document["super_pod_list"].append({"super_pod_id": "1", "server_list": [{"server_id": "x"}]})
    assert "super_pod_list: found server x, expected a server of" in text(problems(document))


@pytest.mark.parametrize("rank", ["1", "99"], ids=["twice", "missing"])
def test_a_rank_that_is_wrong_is_no_matter_of_the_order_of_ranks(rank: str) -> None:
    assert "consecutive" not in text(problems(changed([*DEVICE, "rank_id"], rank, TEMPLATE_ONE)))


def test_the_ends_of_the_ranges_are_allowed() -> None:
    document = changed([*DEVICE, "device_port"], "1", changed([*DEVICE, "host_port"], "65535", TEMPLATE_ONE))
    assert problems(document) == []
    assert parse({"version": "2.0", "rank_list": [{}], "rank_count": 1}).world_size == 1
    assert problems(on_910(15)) == problems(on_910(15), "910b") == problems(on_910(7), "910a") == []
    assert "found 16, expected 0 to 15" in text(problems(on_910(16), "910b"))
    assert "found 16, expected 0 to 15" in text(validate(parse(on_910(16))))
    assert "found 999999999, expected 0 to 15" in text(validate(parse(on_910(999999999))))


def test_long_lists_are_shortened() -> None:
    servers = template_two([instance(number, f"s{number}", 1 + number) for number in range(5)])
    assert "found s0: 1, s1: 2, s2: 3, s3: 4, ... devices" in text(problems(servers, "910a"))
    servers["group_list"][0]["instance_list"].pop()
    assert "found s0: 1, s1: 2, s2: 3, s3: 4 devices" in text(problems(servers, "910a"))
    twice = copy.deepcopy(TEMPLATE_ONE)
    for server in twice["server_list"]:
        server["device"] = [{"device_id": str(rank), "rank_id": str(rank)} for rank in range(9)]
    assert "rank_id: found 0, 1, 2, 3, 4, 5, 6, 7, ... more than once" in text(problems(twice))
    for server in twice["server_list"]:
        server["device"].pop()
    assert "rank_id: found 0, 1, 2, 3, 4, 5, 6, 7 more than once" in text(problems(twice))


def test_a_wrong_structure_hides_no_rule_of_the_product() -> None:
    document = changed([*POD, "pod_name"], None, on_910(8))
    with pytest.raises(Unreadable, match="found 8, expected 0 to 7"):
        parse(document, "910a")


@pytest.mark.parametrize(
    ("path", "value", "document"),
    [
        ([*POD, "devices", 0, "device_id"], "x", EIGHT),
        ([*POD, "server_id"], "", EIGHT),
        ([*POD], "pod", EIGHT),
        ([*POD, "devices"], {}, EIGHT),
        (["group_list"], {}, EIGHT),
        ([*DEVICE, "rank_id"], None, TEMPLATE_ONE),
        ([*SERVER, "device"], None, A3),
        (["server_list"], {}, TEMPLATE_ONE),
    ],
)
def test_one_wrong_part_is_one_problem(path: list[Any], value: Any, document: dict[str, Any]) -> None:
    assert len(problems(changed(path, value, document))) == 1


def test_a_server_id_of_64_characters_is_allowed() -> None:
    assert problems(changed([*POD, "server_id"], "s" * 64, SAMPLE)) == []


@pytest.mark.parametrize("document", [SAMPLE, TEMPLATE_ONE, EIGHT, A3, fake(1, 1), fake(1, 4), fake(300, 8)])
def test_a_good_table_has_no_problem(document: dict[str, Any]) -> None:
    assert problems(document) == []


def on_910(*devices: int, servers: int = 1) -> dict[str, Any]:
    """Servers with these cards each."""
    document = fake(servers, len(devices))
    for pod in document["group_list"][0]["instance_list"]:
        for device, device_id in zip(pod["devices"], devices):
            device["device_id"] = str(device_id)
    return document


@pytest.mark.parametrize(
    ("document", "product", "expected"),
    [
        (on_910(0, 1, 2), "910a", "192.168.0.1: 3 devices, expected 1, 2, 4 or 8 on a 910A"),
        (
            on_910(0, 1, 2, 3, servers=2),
            "910a",
            "192.168.0.2: 4, 192.168.0.1: 4 devices, expected 8 on each of several",
        ),
        (on_910(3, 4), "910a", "found devices 3, 4, expected devices of one group of the 910A, 0-3 or 4-7"),
        (on_910(0, 1, 4, 5), "910a", "expected devices of one group"),
        (on_910(8), "910a", "device_id: found 8, expected 0 to 7"),
        (changed([*POD, "devices", 0, "device_ip"], None, SAMPLE), "910a", "device_ip: found nothing"),
        (changed([*POD, "devices", 0, "device_ip"], None, EIGHT), "910b", "device_ip: found nothing"),
        (on_910(16), "a3", "device_id: found 16, expected 0 to 15"),
    ],
)
def test_rule_of_a_product_is_fatal_only_if_the_product_is_known(
    document: dict[str, Any], product: str, expected: str
) -> None:
    assert expected in text(problems(document, product))
    assert problems(document) == []


def test_rule_of_some_products_is_a_warning_on_an_unknown_one() -> None:
    findings = validate(parse(template_two([instance(0, "a", 8), instance(1, "b", 4)])))
    assert "devices, expected the same number on every server" in text(findings)
    assert errors(findings) == []


def test_rules_of_the_910a_apply_only_if_it_is_named() -> None:
    assert validate(parse(on_910(3, 4, servers=2))) == []


@pytest.mark.parametrize(
    ("document", "product"),
    [
        (on_910(4, 5, 6, 7), "910a"),
        (on_910(0, 1, 2), "910b"),
        (on_910(3, 4), "a3"),
        (fake(2, 16), "a3"),
        (EIGHT, "910a"),
        (changed([*POD, "devices", 0, "device_ip"], None, SAMPLE), "910b"),  # one server needs no addresses
        *((fake(1, devices), "910a") for devices in (1, 2, 4, 8)),
    ],
)
def test_values_that_the_product_allows_have_no_finding(document: dict[str, Any], product: str) -> None:
    assert validate(parse(document), product) == []


def test_ranks_of_two_servers_must_not_interleave() -> None:
    document = copy.deepcopy(TEMPLATE_ONE)
    for server in range(2):
        for device in range(2):
            document["server_list"][server]["device"][device]["rank_id"] = str(server + 2 * device)
    assert "server 10.0.0.0: found ranks 0, 2, expected consecutive ranks" in text(problems(document))


def test_servers_of_different_sizes_are_a_mistake_only_of_a_910a() -> None:
    document = template_two([instance(0, "a", 8), instance(1, "b", 4)])
    assert "devices, expected the same number on every server" in text(problems(document, "910a"))
    assert problems(document, "910b") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ('{"group_count": "1", "gro', "not complete JSON"),
        ("[]", "a JSON list"),
        ("{}", "the table has no status"),
        ('{"status":"initializing"}', 'status is "initializing"'),
        ('{"status":null}', "the table has no status"),
        ('{"status":7}', 'status is "7"'),
    ],
)
def test_every_state_before_completed_has_its_words(text: str, reason: str) -> None:
    state = completed_document(text)
    assert isinstance(state, NotYet)
    assert reason in state.reason


def test_bytes_that_are_not_utf_8_are_not_completed() -> None:
    assert completed_document(b'{"a\xff') == NotYet("the file is not UTF-8: byte 0xff at offset 3")
    assert completed_document(json.dumps(SAMPLE).encode()) == SAMPLE


@pytest.mark.invariant("No text breaks the wait for the rank table, and no document breaks the library")
@given(st.text() | st.binary())
def test_no_text_breaks_the_wait(content: str | bytes) -> None:
    completed_document(content)


KEYS += ["device_id", "device_ip", "rank_id", "group_count", "device_count", "instance_count", "rank_list"]
KEYS += ["super_pod_list", "super_pod_id", "super_device_id", "version", "device_port", "rank_count"]


@pytest.mark.invariant("No text breaks the wait for the rank table, and no document breaks the library")
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_no_document_breaks_the_library(document: dict[str, Any]) -> None:
    use(document)


@given(st.integers(1, 12), st.sampled_from([1, 2, 4, 8]), st.randoms(), st.sampled_from(["pod", "server"]))
def test_the_order_in_the_file_does_not_matter(
    nodes: int, devices: int, shuffle: random.Random, rank_order: str
) -> None:
    document = fake(nodes, devices)
    expected = convert(parse(document), rank_order)
    shuffle.shuffle(document["group_list"][0]["instance_list"])
    table = convert(parse(document), rank_order)
    assert table.dumps() == expected.dumps()
    assert [d.rank for pod in table.pods for d in pod.devices] == list(range(nodes * devices))


def who(
    name: str | None = None,
    ip: str | None = None,
    index: int | None = None,
    job: str | None = None,
) -> Identity:
    """What ModelArts tells a container of a job of three nodes."""
    return Identity(name, job, addresses=(ip,) if ip else (), number=index, nodes=3)


class TestWhoAmI:
    """The rule of the design, section 5."""

    table = parse(
        template_two(
            [
                {
                    "pod_name": f"ma-job-x-worker-{number}",
                    "server_id": server,
                    "devices": [{"device_id": device}],
                }
                for number, server, device in [
                    (0, "10.0.0.1", "0"),
                    (1, "10.0.0.2", "0"),
                    (2, "10.0.0.2", "7"),
                ]
            ]
        )
    )

    @pytest.mark.parametrize(
        ("name", "ip", "index", "number"),
        [
            ("ma-job-x-worker-1", "10.0.0.1", 0, "1"),  # the name is asked first
            ("modelarts-job-x-worker-2", "10.0.0.1", 0, "2"),  # as the platform's variable spells it
            (None, "10.0.0.1", 2, "0"),
            ("unknown", "10.0.0.1", 2, "0"),
            (None, "10.0.0.2", 2, "2"),  # two pods on this host: the address alone cannot say
            (None, None, 1, "1"),
        ],
    )
    def test_the_first_rule_that_fits_one_pod(
        self, name: str | None, ip: str | None, index: int | None, number: str
    ) -> None:
        assert own_pod(self.table, who(name, ip, index)).name == f"ma-job-x-worker-{number}"

    @pytest.mark.invariant("A container finds itself in the rank table, or reports why not")
    @pytest.mark.parametrize(("ip", "index"), [(None, None), ("10.0.0.2", None), ("10.9.9.9", 7)])
    def test_none_or_several_is_an_error_with_the_candidates(self, ip: str | None, index: int | None) -> None:
        with pytest.raises(ConfigError) as raised:
            own_pod(self.table, who(None, ip, index))
        assert "pod ma-job-x-worker-1 on server 10.0.0.2, 1 devices" in str(raised.value)

    def test_only_the_beginning_of_a_name_is_spelled_in_two_ways(self) -> None:
        pods = [{**instance(number, "a"), "pod_name": f"x-ma-job-{number}"} for number in range(2)]
        with pytest.raises(ConfigError):
            own_pod(parse(template_two(pods)), who("x-modelarts-job-1"))

    def test_the_only_pod_needs_no_name(self) -> None:
        assert own_pod(parse(SAMPLE), Identity()).server_id == "172.16.4.9"

    def test_only_pod_of_another_node_does_not_match(self) -> None:
        with pytest.raises(ConfigError):
            own_pod(parse(SAMPLE), who("ma-job-other-worker-3", "10.9.9.9", 3))

    @pytest.mark.parametrize("job", ["ma-job-x", "modelarts-job-x", None, "mine"])
    def test_the_jobs_own_table_fits_by_place_and_address(self, job: str | None) -> None:
        assert own_pod(self.table, who("unknown", None, 1, job)).name == "ma-job-x-worker-1"
        assert own_pod(self.table, who("unknown", "10.0.0.1", None, job)).name == "ma-job-x-worker-0"

    @pytest.mark.parametrize("job", ["ma-job-y", "modelarts-job-y", "ma-job-x-work", "ma-job-"])
    def test_the_table_of_another_job_does_not_fit_by_place_or_address(self, job: str) -> None:
        with pytest.raises(ConfigError, match=f"job {job}"):
            own_pod(self.table, who("ma-job-y-worker-1", "10.0.0.1", 1, job))

    def test_an_exact_name_decides_in_a_job_of_any_name(self) -> None:
        assert own_pod(self.table, who("ma-job-x-worker-1", None, 0, "ma-job-y")).name == "ma-job-x-worker-1"

    def test_the_only_pod_of_another_job_is_not_this_container(self) -> None:
        with pytest.raises(ConfigError):
            own_pod(parse(fake(1, 1)), who(None, None, 0, "ma-job-y"))

    def test_other_forms_of_names_do_not_tell_the_job(self) -> None:
        assert own_pod(parse(SAMPLE), who(None, None, 0, "ma-job-y")).server_id == "172.16.4.9"


@given(
    st.from_regex(r"\d{1,3}(\.\d{1,3}){2,4}\.?", fullmatch=True)
    | st.ip_addresses().map(str)
    | st.text(max_size=6)
)
def test_the_family_of_an_address_is_that_of_ipaddress(address: str) -> None:
    try:
        expected = ipaddress.ip_address(address).version
    except ValueError:
        with pytest.raises(ValueError, match="address"):
            address_family(address)
    else:
        assert address_family(address) == expected
