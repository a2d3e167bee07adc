"""What a mapping must not say, and what a plan must not do: two sources for one file, a name that is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from path_mapping.config import ObsUrl, Route
from path_mapping.errors import Failure, MappingInvalid
from path_mapping.mapping_file import parse_mapping
from path_mapping.plan import Copy, clashes, distinct, downloads, unsafe
from path_mapping.store import StoredObject


def problems_of(text: str) -> Sequence[str]:
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(text, "mapping.py")
    return raised.value.problems


@pytest.mark.parametrize(
    ("text", "bucket", "key", "shown"),
    [
        ("obs://bucket", "bucket", "", "obs://bucket/"),
        ("obs://bucket/", "bucket", "", "obs://bucket/"),
        ("s3://my-bucket.1/a/b", "my-bucket.1", "a/b", "obs://my-bucket.1/a/b"),
        ("obs://bucket/dir/", "bucket", "dir/", "obs://bucket/dir/"),
    ],
)
def test_a_url_is_a_bucket_and_a_key(text: str, bucket: str, key: str, shown: str) -> None:
    url = ObsUrl.parse(text)
    assert (url.bucket, url.key, str(url)) == (bucket, key, shown)


@pytest.mark.parametrize(
    "text",
    [
        "", "bucket/key", "http://bucket/key", "OBS://bucket/key", "obs:///key", "obs://ab/key", "obs://Bucket/key",
        "obs://buck_et/key", "obs://-bucket/key", "obs://" + "b" * 64, "obs://buck..et/key", "obs://bucket//key",
        "obs://bucket/a/../b", "obs://bucket/./b", "obs://bucket/a\0b", "obs://bucket/\ud800",
    ],
)  # fmt: skip
def test_a_url_that_is_none_says_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        ObsUrl.parse(text)


@pytest.mark.parametrize("other", ["./a", "a/", "x/../a", ".//a"])
def test_one_local_path_in_two_spellings_stands_twice(other: str) -> None:
    found = problems_of(
        f"PATH_MAPPING_CONFIG = {{'output': {{'a': 'obs://bucket/x',\n{other!r}: 'obs://bucket/y'}}}}"
    )
    assert found == (f"line 2: output: {other!r} is the path of line 1 already",)


def test_an_input_may_be_an_output_too() -> None:
    mapping = parse_mapping(
        "PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/x'}, 'output': {'a': 'obs://bucket/x'}}", "x"
    )
    assert mapping.inputs == mapping.outputs


def test_a_local_path_that_cannot_be_one_is_named() -> None:
    assert len(problems_of(r"PATH_MAPPING_CONFIG = {'input': {'\ud800': 'obs://bucket/x'}}")) == 1


def copy(local: str, key: str) -> Copy:
    return Copy(Path(local), Path("/base"), "bucket", key, 1)


def test_two_objects_for_one_file_are_a_problem_of_both() -> None:
    assert list(clashes([copy("/base/a", "x/a"), copy("/base/a", "y/a"), copy("/base/b", "y/b")])) == [
        "obs://bucket/y/a: /base/a is obs://bucket/x/a already"
    ]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_file_is_no_directory_of_another_route_either(order: Sequence[int]) -> None:
    both = [copy("/base/a", "x/a"), copy("/base/a/b/c", "y/c")]
    found = list(clashes([both[number] for number in order]))
    assert found == ["obs://bucket/y/c: /base/a is a file, not a directory"]


def test_the_second_file_for_one_object_is_a_failure() -> None:
    failures: List[Failure] = []
    kept = distinct([copy("/base/a", "x"), copy("/base/b", "x"), copy("/base/c", "y")], failures)
    assert [str(found.local) for found in kept] == ["/base/a", "/base/c"]
    assert [failure.source for failure in failures] == ["/base/b"]
    assert "/base/a" in str(failures[0])


def test_a_key_that_no_file_name_can_hold_is_unsafe() -> None:
    assert unsafe("a/\ud800") is not None


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3), max_size=6))
def test_what_passes_the_plan_can_be_written(names: List[List[str]]) -> None:
    """No file is another one's parent, and none is there twice: checked by a second, simpler rule."""
    copies = [copy("/base/" + "/".join(name), "/".join(name)) for name in names]
    paths = [str(found.local) for found in copies]
    broken = any(
        first == second or second.startswith(first + "/")
        for number, first in enumerate(paths)
        for other, second in enumerate(paths)
        if number != other
    )
    assert bool(list(clashes(copies))) == broken


@given(st.lists(st.text(max_size=300), max_size=6))
def test_no_key_of_any_characters_leaves_its_target(names: List[str]) -> None:
    objects = [StoredObject("in/" + name, 1, None) for name in names]
    problems: List[str] = []
    for found in downloads(Route("t", ObsUrl("bucket", "in/")), objects, Path("/base"), problems) or ():
        assert os.path.normpath(found.local) == str(found.local)
        assert str(found.local).startswith("/base/t/")
        assert max(len(os.fsencode(part)) for part in found.local.parts) <= 255
