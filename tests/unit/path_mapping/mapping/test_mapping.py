"""The path mapping: its file, and which object becomes which file."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

import pytest
from hypothesis import given, strategies as st

from path_mapping.errors import CredentialsMissing, MappingInvalid
from path_mapping.mapping.mapping_file import parse_mapping, read_mapping
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route
from path_mapping.mapping.selection import Shard
from path_mapping.planning.plan import find_input, plan_downloads
from path_mapping.stores import StoredObject, open_store

# Shaped as X2MindSpore generates it: single quotes, comments within the dictionaries, commas at their ends.
GENERATED = """
PATH_MAPPING_CONFIG = {
    'input': {
        # fetched before the training
        '/data/flowers': 'obs://pictures/flowers',
    },
    'output': {
        './models': 's3://trained/',
    }
}
"""


def test_the_generated_file_is_read_unchanged() -> None:
    assert parse_mapping(GENERATED, "x") == PathMapping(
        (Route("/data/flowers", ObsUrl("pictures", "flowers")),),
        (Route("./models", ObsUrl("trained", "")),),
    )


@pytest.mark.parametrize(
    "text", ["PATH_MAPPING_CONFIG = {}", "'''Doc.'''\nPATH_MAPPING_CONFIG: dict = {'input': {}}"]
)
def test_an_empty_mapping_is_valid(text: str) -> None:
    assert parse_mapping(text, "x") == PathMapping((), ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PATH_MAPPING_CONFIG = {", "line 1: not Python"),
        ("", "no PATH_MAPPING_CONFIG = {...} found"),
        ("X = {}", "line 1: found other code"),
        ("import os\nPATH_MAPPING_CONFIG = {}", "line 1: found other code"),
        (
            "PATH_MAPPING_CONFIG = {}\nPATH_MAPPING_CONFIG = {}",
            "line 2: PATH_MAPPING_CONFIG is assigned a second",
        ),
        ("PATH_MAPPING_CONFIG = dict()", "line 1: PATH_MAPPING_CONFIG: expected a dict"),
        ("PATH_MAPPING_CONFIG = {'inputs': {}}", "found the key 'inputs', expected one of input, output"),
        ("PATH_MAPPING_CONFIG = {'input': {}, 'input': {}}", "duplicate key 'input'"),
        ("PATH_MAPPING_CONFIG = {'input': []}", "input: expected a dict"),
        ("PATH_MAPPING_CONFIG = {'input': {1: 'obs://bucket/x'}}", "found 1, expected a local path"),
        ("PATH_MAPPING_CONFIG = {'input': {'': 'obs://bucket/x'}}", "found '', expected a local path"),
        ("PATH_MAPPING_CONFIG = {'input': {**x}}", "found **, expected a local path"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': 'b'}}", "found 'b', expected 'obs://bucket/path'"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': f'obs://{x}/'}}", "expected 'obs://bucket/path'"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': 'obs://Big/x'}}", "found the bucket 'Big'"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': 'obs://b/x'}}", "found the bucket 'b'"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/../x'}}", "expected a path without"),
        ("PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/x//y'}}", "expected a path without"),
        (
            "PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/x',\n'a': 'obs://bucket/y'}}",
            "line 2: input: duplicate key 'a', first on line 1",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(text, "mapping.py")
    assert said in str(raised.value)
    assert "mapping.py" in str(raised.value)


def test_all_mistakes_are_reported_at_once() -> None:
    text = "PATH_MAPPING_CONFIG = {'input': {'a': 'http://x', 'b': 3}, 'more': 1}"
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(text, "x")
    assert len(raised.value.problems) == 3


def test_the_file_is_never_executed(tmp_path: Path) -> None:
    victim = tmp_path / "executed"
    config = tmp_path / "path_mapping_config.py"
    config.write_text(f"PATH_MAPPING_CONFIG = open({str(victim)!r}, 'w')\n")
    with pytest.raises(MappingInvalid):
        read_mapping(config)
    assert not victim.exists()


def test_an_unreadable_file_is_an_invalid_mapping(tmp_path: Path) -> None:
    with pytest.raises(MappingInvalid, match="cannot be read"):
        read_mapping(tmp_path / "missing.py")


@given(st.text())
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        parse_mapping(f"PATH_MAPPING_CONFIG = {text}", "x")
    except MappingInvalid as error:
        assert error.problems


def planned(local: str, key: str, *keys: str) -> Optional[List[str]]:
    """The local paths that these objects become."""
    objects = [StoredObject(name, 0 if name.endswith("/") else 1, None) for name in keys]
    route = Route(local, ObsUrl("bucket", key))
    source = find_input(route, objects, Path("/base"))
    if source is None:
        return None
    steps = list(
        plan_downloads(
            route,
            *source,
            [],
            lambda name: None,
            lambda name, sizes: [name],
            Shard(),
            False,
            lambda name: None,
        )
    )
    assert {step.action for step in steps} <= {"copy"}
    return [str(source[0].root / step.name) for step in steps]


@pytest.mark.parametrize(
    ("local", "key", "keys", "expected"),
    [
        ("d", "data", ["data/a", "data/b/c"], ["/base/d/a", "/base/d/b/c"]),  # a directory
        ("d", "data/", ["data/a"], ["/base/d/a"]),  # with or without a trailing slash
        ("d/", "data", ["data/a"], ["/base/d/a"]),
        ("/abs/d", "data", ["data/a"], ["/abs/d/a"]),
        ("./d", "", ["a", "b/c"], ["/base/d/a", "/base/d/b/c"]),  # the whole bucket
        ("f", "data/a.zip", ["data/a.zip"], ["/base/f"]),  # a file
        ("f/", "data/a.zip", ["data/a.zip"], ["/base/f/a.zip"]),
        ("d", "data", ["data", "data/a"], ["/base/d"]),  # the object of exactly this key
        ("d", "data/", ["data/", "data/a"], ["/base/d/a"]),
        ("d", "data", ["data2/a", "data.zip"], None),  # keys that only look alike
        ("d", "data/", ["data2/a"], None),
        ("d", "data", ["data/"], []),  # an empty directory exists
        ("d", "data", [], None),
    ],
)
def test_which_object_becomes_which_file(
    local: str, key: str, keys: List[str], expected: Optional[List[str]]
) -> None:
    assert planned(local, key, *keys) == expected


def test_missing_credentials_are_all_reported_at_once() -> None:
    with pytest.raises(CredentialsMissing) as raised:
        open_store({"OBS_ACCESS_KEY_ID": "AKPLANTED"}, None)
    assert "OBS_ENDPOINT (or S3_ENDPOINT), OBS_SECRET_ACCESS_KEY" in str(raised.value)
    assert "PLANTED" not in str(raised.value)


def test_an_invalid_endpoint_is_reported() -> None:
    environ = {"OBS_ENDPOINT": "ftp://x", "OBS_ACCESS_KEY_ID": "a", "OBS_SECRET_ACCESS_KEY": "s"}
    with pytest.raises(CredentialsMissing, match="found 'ftp://x'"):
        open_store(environ, None)
