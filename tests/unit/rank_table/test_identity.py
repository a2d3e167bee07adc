"""A container finds itself by its number, by its cards and by addresses; and what is no table of its own."""

from __future__ import annotations

import base64
import gzip
from typing import Any, Dict

import pytest

from ma_boot.errors import ConfigError
from ma_boot.rank_table import Identity, fake, own_pod, parse, validate
from ma_boot.rank_table.read import unpacked
from tests.unit.rank_table.test_rank_table import a3
from tests.unit.rank_table.test_versions import servers
from tests.unit.rank_table.writers import packed


def named(*ids: str, cards: int = 1) -> Dict[str, Any]:
    """A table of servers with these names."""
    document = servers(len(ids), cards)
    for server, name in zip(document["server_list"], ids):
        server["server_id"] = name
    return document


@pytest.mark.parametrize("pods", [2, 3])
def test_a_number_counts_where_the_number_of_nodes_is_known(pods: int) -> None:
    table = parse(fake(pods, 1))
    assert own_pod(table, Identity(number=1, nodes=pods)).name == "ma-job-fake-worker-1"
    with pytest.raises(ConfigError, match="was not found"):
        own_pod(table, Identity(number=1))
    with pytest.raises(ConfigError, match="was not found"):
        own_pod(table, Identity(nodes=pods))


def test_the_only_pod_of_a_table_needs_no_number_of_nodes() -> None:
    table, who = parse(fake(1, 1)), Identity(name="another", number=0)
    assert own_pod(table, who).name == "ma-job-fake-worker-0"
    with pytest.raises(ConfigError, match="was not found"):
        own_pod(table, who._replace(number=1))


@pytest.mark.parametrize(("cards", "fits"), [({0}, True), ({0, 1}, True), ({1}, False)])
def test_a_pod_with_cards_that_are_not_here_is_not_this_one(cards: Any, fits: bool) -> None:
    table, who = parse(fake(2, 1)), Identity(number=0, nodes=2, devices=frozenset(cards))
    if fits:
        assert own_pod(table, who).name == "ma-job-fake-worker-0"
    else:
        with pytest.raises(ConfigError, match="was not found"):
            own_pod(table, who)


@pytest.mark.parametrize(
    ("ids", "fits"),
    [(("10.0.0.1", "10.0.0.2"), False), (("node-a", "node-b"), True), (("a.b.c.d", "a.b.c.e"), True), (("1", "2"), True)],
)  # fmt: skip
def test_a_table_of_addresses_without_that_of_this_host_is_an_earlier_one(ids: Any, fits: bool) -> None:
    table, who = parse(named(*ids)), Identity(host="10.0.0.9", number=0, nodes=2)
    if fits:
        assert own_pod(table, who).server_id == ids[0]
    else:
        with pytest.raises(ConfigError, match="was not found"):
            own_pod(table, who)


def test_a_server_of_several_nodes_without_the_cards_of_this_one_is_refused() -> None:
    table = parse(named("10.0.0.1", cards=4))
    who = Identity(addresses=("10.0.0.1",), devices=frozenset({0, 1}), number=0, nodes=2)
    assert [device.device_id for device in own_pod(table, who).devices] == ["0", "1"]
    with pytest.raises(ConfigError, match="may hold devices of several pods"):
        own_pod(table, who._replace(devices=frozenset({8, 9})))


def without_addresses(document: Dict[str, Any]) -> Dict[str, Any]:
    for server in document["server_list"]:
        for device in server["device"]:
            device.pop("device_ip", None)
    return document


def test_the_cards_of_one_super_pod_need_no_addresses() -> None:
    def asked(document: Dict[str, Any]) -> bool:
        return any(finding.path.endswith("device_ip") for finding in validate(parse(document)))

    assert not asked(without_addresses(a3()))
    two = without_addresses(a3())
    (pod,) = two["super_pod_list"]
    two["super_pod_list"] = [
        {"super_pod_id": f"{number}", "server_list": [server]}
        for number, server in enumerate(pod["server_list"])
    ]
    assert asked(two)
    assert asked({**without_addresses(a3()), "super_pod_list": []})
    plain = without_addresses(a3())
    for server in plain["server_list"]:
        for device in server["device"]:
            del device["super_device_id"]
    assert asked(plain)


def test_a_packed_table_that_is_damaged_is_not_read() -> None:
    whole = packed(b'{"status": "completed"}')
    assert unpacked(whole) == b'{"status": "completed"}'
    with pytest.raises(ValueError, match="base64"):
        unpacked(whole[:8] + b"*" + whole[8:])
    head = gzip.compress(b"")[:10]
    with pytest.raises(ValueError, match="invalid"):
        unpacked(base64.b64encode(head + b"\xff" * 30))
    with pytest.raises(ValueError, match="the end is missing"):
        unpacked(base64.b64encode(base64.b64decode(whole)[:-9]))
