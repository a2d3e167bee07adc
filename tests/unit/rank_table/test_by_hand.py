"""Tables that were written by hand from what is known of their writers, beside those that are made.

| file | the writer's code | what it shows |
|---|---|---|
| `modelarts.json` | ModelArts, template two | alphabetical keys, no ranks; pods in another order than in the file and than their addresses |
| `modelarts-one.json` | ModelArts' notebooks, template one | no `host_ip`; a container holds any cards of its server |
| `volcano.json` | Volcano, configmap1980 | `v2` is written as 1.0; the order is that of pods, ranks stay with servers |
| `hyperjob-1.2.json` | the same, HyperJob | `v2` is written as 1.2, without a counter; no `device_ip` on A3 |
| `hyperjob-1.3.json` | the same, `--rank-table-version=1.3` | the counter `data_Version` is a number; a super pod is a child job |
| `volcano-global.json` | volcano-global, globalranktable | 1.4: `data_version`, `dpu_ip`, `numa_id`, `cluster_list` |
| `mindcluster.json` | MindCluster, ascend-operator 7.3 | two pods on one node are two servers, called by their uids |
| `mindcluster-1.2.json` | the same, super pods | one pod on each node: servers are called by their addresses |
| `mindcluster-2.0.json` | the same, Ascend 950 | numbers; a level for each network, no servers |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ma_boot.platform.rank_table import convert, errors, parse, rows, validate
from tests.unit.rank_table.writers import WRITERS

BY_HAND = sorted((Path(__file__).parent / "by_hand").glob("*.json"))
NAMES = [file.stem for file in BY_HAND]
ONE = "modelarts-one"  # `fake --template one`, not a writer of its own
Place = tuple[int, Any, Any]  # rank, server, device


def shape(value: Any) -> Any:
    """The keys and types of a document; of a list, those of its elements, each once."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        shapes = {json.dumps(inner): inner for inner in map(shape, value)}
        return [inner for _, inner in sorted(shapes.items())]
    return type(value).__name__


def made(name: str) -> dict[str, Any]:
    """The table that `fake` makes for two nodes with two devices."""
    if name == ONE:
        return dict(convert(parse(WRITERS["modelarts"].document(2, 2))).document)
    return WRITERS[name].document(2, 2)


def places(document: dict[str, Any]) -> set[Place]:
    """Who has which rank, by the document alone."""
    if "rank_list" in document:
        return {(rank["rank_id"], None, rank["device_id"]) for rank in document["rank_list"]}
    return {
        (int(device["rank_id"]), server["server_id"], device["device_id"])
        for server in document["server_list"]
        for device in server["device"]
    }


def test_the_table_above_has_every_file_and_every_writer_has_one() -> None:
    assert set(NAMES) == {*WRITERS, ONE}
    assert all(f"`{name}.json`" in (__doc__ or "") for name in NAMES)


@pytest.mark.parametrize("file", BY_HAND, ids=NAMES)
def test_a_fake_has_the_fields_and_types_of_the_real_one_its_version_and_its_counts(file: Path) -> None:
    fake, real = made(file.stem), json.loads(file.read_text())
    assert shape(fake) == shape(real)
    texts = {name: value for name, value in real.items() if isinstance(value, str)}
    assert {name: fake[name] for name in texts} == texts


@pytest.mark.parametrize("file", BY_HAND, ids=NAMES)
def test_a_table_of_the_writer_is_read_with_the_ranks_that_it_has(file: Path) -> None:
    """ModelArts' has none: rank 0 is on `worker-0`, as its template one has it, too."""
    document = json.loads(file.read_text())
    table = parse(document)
    assert errors(validate(table)) == []
    expected = places(
        json.loads(
            (file.parent / f"{ONE}.json").read_text() if file.stem == "modelarts" else file.read_text()
        )
    )
    once = convert(table)
    assert {(row["rank"], row["server_id"], row["device_id"]) for row in rows(once)} == expected
    assert json.loads(once.dumps())["version"] in ("1.0", "1.2", "2.0")
    assert convert(parse(json.loads(once.dumps()))).dumps() == once.dumps()
