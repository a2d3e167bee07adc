"""What is true of the tables of every writer."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.platform.rank_table import (
    NotYet,
    RankTable,
    completed_document,
    convert,
    errors,
    moved,
    parse,
    rows,
    validate,
)
from tests.unit.rank_table.documents import VALUES, use
from tests.unit.rank_table.writers import WRITERS, packed

LAST_ADDRESS = ("rank_list", -1, "level_list", -1, "rank_addr_list", 0, "addr")
HCCL = {"1.0", "1.1", "1.2", "2.0"}
WITH_SERVERS = [name for name in WRITERS if name != "mindcluster-2.0"]
JOBS = (st.sampled_from(sorted(WRITERS)), st.integers(1, 9), st.integers(1, 16))


def devices(table: RankTable) -> set[tuple[Any, ...]]:
    """Every device of the table, by what tells it from the others."""
    return {(row["server_id"], row["device_id"], row["device_ip"]) for row in rows(table)}


@pytest.mark.parametrize("writer", WRITERS)
def test_earlier_states_are_not_taken_for_a_completed_table(writer: str) -> None:
    completed = json.dumps(WRITERS[writer].document(2, 2))
    before = [json.dumps(state) for state in WRITERS[writer].before]
    old = json.dumps({**json.loads(completed), "status": "initializing"})  # with the servers of before
    for text in (*before, old, "", completed[: len(completed) // 2]):
        assert isinstance(completed_document(text), NotYet)
        assert isinstance(completed_document(packed(text.encode())), NotYet)
    assert completed_document(completed) == completed_document(packed(completed.encode()))


@pytest.mark.invariant("Conversion keeps all devices and is idempotent")
@given(*JOBS, st.booleans())
def test_converting_keeps_every_device_and_its_rank_and_changes_nothing_the_second_time(
    writer: str, nodes: int, each: int, in_base64: bool
) -> None:
    text = json.dumps(WRITERS[writer].document(nodes, each)).encode()
    document = completed_document(packed(text) if in_base64 else text)
    assert not isinstance(document, NotYet)
    table = parse(document)
    once = convert(table)
    twice = convert(parse(json.loads(once.dumps())))
    assert twice.dumps() == once.dumps()
    assert once.document["version"] in HCCL
    assert devices(once) == devices(table)
    assert [row["rank"] for row in rows(once)] == list(range(nodes * each))
    assert errors(validate(once)) == errors(validate(twice)) == []
    if writer != "modelarts":  # which has no ranks before
        assert moved(table, once) == []


@given(st.sampled_from(WITH_SERVERS[1:]), st.integers(1, 9), st.integers(1, 16), st.randoms())
def test_ranks_stay_with_servers_in_any_order_of_the_file(
    writer: str, nodes: int, each: int, shuffle: random.Random
) -> None:
    document = WRITERS[writer].document(nodes, each)
    before = convert(parse(copy.deepcopy(document)))
    shuffle.shuffle(document["server_list"])
    after = convert(parse(document))
    assert moved(before, after) == []
    assert rows(after) == rows(before)


@given(*JOBS, st.sampled_from(["9.9", "2025-01", "v3"]))
def test_no_version_is_refused_for_its_number(writer: str, nodes: int, each: int, version: str) -> None:
    if writer == "modelarts":
        return
    table = parse({**WRITERS[writer].document(nodes, each), "version": version})
    assert errors(validate(table)) == []
    assert convert(table).document["version"] == version


@given(*JOBS, st.data())
def test_no_mutation_of_any_writers_table_breaks_the_library(
    writer: str, nodes: int, each: int, data: st.DataObject
) -> None:
    document: dict[str, Any] = copy.deepcopy(WRITERS[writer].document(min(nodes, 3), min(each, 3)))
    holder: Any = document
    while isinstance(holder, (dict, list)) and holder:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not isinstance(holder[key], (dict, list)) or data.draw(st.booleans()):
            holder[key] = data.draw(VALUES)
            break
        holder = holder[key]
    state = completed_document(packed(json.dumps(document).encode()))
    if not isinstance(state, NotYet):
        use(state)


@given(st.binary() | st.binary().map(lambda data: b"H4sI" + data) | st.binary().map(packed))
def test_no_packed_bytes_break_the_library(content: bytes) -> None:
    assert isinstance(completed_document(content), (NotYet, dict))


@pytest.mark.parametrize(
    ("writer", "nodes", "path", "last"),
    [
        ("volcano", 251, ("server_list", -2, "server_id"), "192.168.0.250"),
        ("volcano", 251, ("server_list", -1, "server_id"), "192.168.1.1"),
        ("mindcluster", 251, ("server_list", -2, "container_ip"), "172.16.0.250"),
        ("mindcluster", 251, ("server_list", -1, "container_ip"), "172.16.1.1"),
        ("mindcluster-2.0", 250, LAST_ADDRESS, "10.0.249.1"),
        ("mindcluster-2.0", 251, LAST_ADDRESS, "10.1.0.1"),
    ],
)
def test_addresses_of_many_nodes_stay_addresses(
    writer: str, nodes: int, path: tuple[Any, ...], last: str
) -> None:
    value: Any = WRITERS[writer].document(nodes, 1)
    for step in path:
        value = value[step]
    assert value == last
