"""The section `cache` of a mapping: its options, and every mistake in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ma_boot.node.caches.options import EXTENSION, CacheOptions, write_cache_options
from path_mapping.errors import MappingInvalid
from path_mapping.mapping.mapping_file import parse_mapping
from path_mapping.mapping.routes import ObsUrl, Route

URL = "obs://bucket/caches/"
PLACES = {"job": "j1", "node": "3", "rank": "24"}


def problems_of(mapping: dict[str, Any]) -> Sequence[str]:
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(json.dumps(mapping), "m.json", PLACES, EXTENSION)
    return raised.value.problems


@pytest.mark.parametrize(
    ("written", "options"),
    [
        (URL, CacheOptions()),
        ({"obs": URL}, CacheOptions()),
        ({"obs": URL, "keep": 3, "max_files": 5, "max_bytes": 7, "interval": 9}, CacheOptions(3, 5, 7, 9)),
    ],
)
def test_cache_is_read_as_a_route(written: Any, options: CacheOptions) -> None:
    mapping = parse_mapping(json.dumps({"cache": {"cc": written}}), "m.json", PLACES, EXTENSION)
    assert mapping.caches == (Route("cc", ObsUrl("bucket", "caches/"), more=options),)
    again = {"cache": {"cc": {"obs": URL, **write_cache_options(options)}}}
    assert parse_mapping(json.dumps(again), "m.json", PLACES, EXTENSION) == mapping


def test_other_readers_know_no_section_cache() -> None:
    with pytest.raises(MappingInvalid, match="expected one of input, output"):
        parse_mapping(json.dumps({"cache": {"cc": URL}}), "m.json")


@pytest.mark.parametrize(
    ("cache", "problem"),
    [
        ({"cc": {"obs": URL, "keep": 0}}, "found 0, expected a number, at least 1"),
        ({"cc": {"obs": URL, "max_bytes": True}}, "found True, expected a number"),
        ({"cc": {"obs": URL, "max_files": "9"}}, "found '9', expected a number"),
        ({"cc": {"obs": URL, "shard": True}}, "found the key 'shard', expected one of obs, keep"),
        ({"cc": {"keep": 2}}, "no 'obs'"),
        ({"cc": "obs://bucket/{node}/"}, "found {node} in the URL of a cache"),
        ({"cc": {"obs": "obs://bucket/{rank}/"}}, "found {rank} in the URL of a cache"),
        ({"cc": URL, "dd": "obs://bucket/other/"}, "found 'dd', expected one cache"),
        ({"*": URL}, "expected a local path without"),
    ],
)
def test_each_mistake_is_named(cache: dict[str, Any], problem: str) -> None:
    (found,) = problems_of({"cache": cache})
    assert problem in found


@pytest.mark.parametrize(
    ("section", "local", "url"),
    [
        ("input", "cc/data", "obs://bucket/data/"),
        ("output", "cc", "obs://bucket/out/"),
        ("input", "data", "obs://bucket/"),
        ("output", "out", "obs://bucket/caches/job/"),
    ],
)
def test_a_cache_shares_no_path_and_no_url_with_inputs_and_outputs(
    section: str, local: str, url: str
) -> None:
    (found,) = problems_of({"cache": {"cc": URL}, section: {local: url}})
    assert "use separate" in found
