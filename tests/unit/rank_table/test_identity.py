"""A container finds itself by its number, by its cards and by addresses; and what is no table of its own."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from ma_boot.errors import ConfigError
from ma_boot.platform.rank_table import Identity, fake, own_pod, parse, validate
from ma_boot.platform.rank_table.read import unpacked
from tests.unit.rank_table.documents import a3, servers
from tests.unit.rank_table.writers import packed


def named(*ids: str, cards: int = 1) -> dict[str, Any]:
    """A table of servers with these names."""
    document = servers(len(ids), cards)
    for server, name in zip(document["server_list"], ids):
        server["server_id"] = name
    return document


WORKER = "ma-job-fake-worker-{}".format
NODE_0 = Identity(number=0, nodes=2)
ELSEWHERE = NODE_0._replace(host="10.0.0.9")


@pytest.mark.parametrize(
    ("document", "who", "name"),
    [
        (fake(2, 1), Identity(number=1, nodes=2), WORKER(1)),
        (fake(3, 1), Identity(number=1, nodes=3), WORKER(1)),
        (fake(2, 1), Identity(number=1), None),
        (fake(2, 1), Identity(nodes=2), None),
        (fake(1, 1), Identity(name="another", number=0), WORKER(0)),  # the only pod
        (fake(1, 1), Identity(name="another", number=1), None),
        (fake(2, 1), NODE_0._replace(devices=frozenset({0})), WORKER(0)),
        (fake(2, 1), NODE_0._replace(devices=frozenset({0, 1})), WORKER(0)),
        (fake(2, 1), NODE_0._replace(devices=frozenset({1})), None),  # cards that are not here
        (named("10.0.0.1", "10.0.0.2"), ELSEWHERE, None),  # without this host: an earlier table
        (named("node-a", "node-b"), ELSEWHERE, "node-a"),
        (named("a.b.c.d", "a.b.c.e"), ELSEWHERE, "a.b.c.d"),
        (named("1", "2"), ELSEWHERE, "1"),
    ],
)
def test_node_number_decides_unless_another_fact_contradicts(
    document: dict[str, Any], who: Identity, name: str | None
) -> None:
    if name is None:
        with pytest.raises(ConfigError, match="was not found"):
            own_pod(parse(document), who)
    else:
        pod = own_pod(parse(document), who)
        assert (pod.name or pod.server_id) == name


def test_a_server_of_several_nodes_without_the_cards_of_this_one_is_refused() -> None:
    table = parse(named("10.0.0.1", cards=4))
    who = Identity(addresses=("10.0.0.1",), devices=frozenset({0, 1}), number=0, nodes=2)
    assert [device.device_id for device in own_pod(table, who).devices] == ["0", "1"]
    with pytest.raises(ConfigError, match="may hold devices of several pods"):
        own_pod(table, who._replace(devices=frozenset({8, 9})))


def without_addresses(document: dict[str, Any]) -> dict[str, Any]:
    for server in document["server_list"]:
        for device in server["device"]:
            device.pop("device_ip", None)
    return document


def test_the_cards_of_one_super_pod_need_no_addresses() -> None:
    def asked(document: dict[str, Any]) -> bool:
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
