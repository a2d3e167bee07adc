"""Tables that were written by hand from what is known of their writers, beside those that `fake` makes.

| file | the writer's code | what it shows |
|---|---|---|
| `volcano.json` | Volcano, configmap1980 | `v2` is written as 1.0; the order is that of pods, ranks stay with servers |
| `hyperjob-1.2.json` | the same, HyperJob | `v2` is written as 1.2, without a counter; no `device_ip` on A3 |
| `hyperjob-1.3.json` | the same, `--rank-table-version=1.3` | the counter `data_Version` is a number; a super pod is a child job |
| `volcano-global.json` | volcano-global, globalranktable | 1.4: `data_version`, `dpu_ip`, `numa_id`, `cluster_list` |
| `mindcluster.json` | MindCluster, ascend-operator 7.3 | two pods on one node are two servers, called by their uids |
| `mindcluster-1.2.json` | the same, super pods | one pod on each node: servers are called by their addresses |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ma_boot.rank_table import WRITERS, convert, errors, parse, rows, validate

BY_HAND = sorted((Path(__file__).parent / "by_hand").glob("*.json"))
NAMES = [file.stem for file in BY_HAND]


def shape(value: Any) -> Any:
    """The keys and types of a document; of a list, those of its first element."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_the_table_above_has_every_file() -> None:
    assert set(NAMES) <= set(WRITERS)
    assert all(f"`{name}.json`" in (__doc__ or "") for name in NAMES)
    assert len(NAMES) == 6


@pytest.mark.parametrize("file", BY_HAND, ids=NAMES)
def test_a_fake_has_the_fields_and_types_of_the_real_one(file: Path) -> None:
    assert shape(WRITERS[file.stem].document(2, 1)) == shape(json.loads(file.read_text()))


@pytest.mark.parametrize("file", BY_HAND, ids=NAMES)
def test_a_table_of_the_writer_is_read_with_the_ranks_that_it_has(file: Path) -> None:
    document = json.loads(file.read_text())
    table = parse(document)
    assert errors(validate(table)) == []
    expected = {
        (int(device["rank_id"]), server["server_id"], device["device_id"])
        for server in document["server_list"]
        for device in server["device"]
    }
    once = convert(table)
    assert {(row["rank"], row["server_id"], row["device_id"]) for row in rows(once)} == expected
    assert json.loads(once.dumps())["version"] in ("1.0", "1.2")
