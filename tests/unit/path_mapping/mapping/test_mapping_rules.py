"""Invalid URLs and paths, and duplicates of local paths."""

from __future__ import annotations

import re
from typing import List, Sequence

import pytest

from ma_boot.job.readers import JobProblem, read_url
from path_mapping.errors import MappingInvalid
from path_mapping.mapping.document import ScalarValue
from path_mapping.mapping.mapping_file import parse_mapping
from path_mapping.mapping.routes import ObsUrl


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
def test_an_invalid_url_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        ObsUrl.parse(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("obs://bucket/data\n", "LINE FEED (U+000A)"),
        ("obs://bucket/da\r\nta", "CARRIAGE RETURN (U+000D)"),
        ("obs://bucket/data\u200b/", "ZERO WIDTH SPACE (U+200B)"),
        ("obs://bucket/\ufeffdata", "ZERO WIDTH NO-BREAK SPACE (U+FEFF)"),
        ("obs://bucket/da\x7fta", "DELETE (U+007F)"),
        ("obs://bucket/data\u2028", "LINE SEPARATOR (U+2028)"),
        ("obs://bucket/data\u00a0", "NO-BREAK SPACE (U+00A0)"),
        ("obs://bucket/data ", "SPACE (U+0020)"),
    ],
)
def test_what_nobody_sees_in_a_typed_url_is_named(text: str, name: str) -> None:
    """The mapping, the job file and the command line; objects with such names are read by other ways."""
    with pytest.raises(ValueError, match=re.escape(name)):
        ObsUrl.typed(text)
    assert ObsUrl.parse(text).bucket == "bucket"
    (problem,) = problems_of(f"PATH_MAPPING_CONFIG = {{'input': {{'a': {text!r}}}}}")
    assert f"line 1: input: found {text!r}, expected a path without {name}" in problem
    problems: List[JobProblem] = []
    assert read_url("code-url", ScalarValue(3, repr(text), text), problems) is None
    assert name in str(problems[0])


def test_what_is_seen_in_a_typed_url_is_no_problem() -> None:
    for key in ("a b/c", "数据/集", "naïve", "\u3042"):
        assert ObsUrl.typed(f"obs://bucket/{key}").key == key


@pytest.mark.parametrize("other", ["./a", "a/", "x/../a", ".//a"])
def test_two_spellings_of_one_local_path_are_duplicate_keys(other: str) -> None:
    found = problems_of(
        f"PATH_MAPPING_CONFIG = {{'output': {{'a': 'obs://bucket/x',\n{other!r}: 'obs://bucket/y'}}}}"
    )
    assert found == (f"line 2: output: duplicate key {other!r}, the same path as 'a', first on line 1",)


def test_an_input_may_be_an_output_too() -> None:
    mapping = parse_mapping(
        "PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/x'}, 'output': {'a': 'obs://bucket/x'}}", "x"
    )
    assert mapping.inputs == mapping.outputs


def test_an_impossible_local_path_is_reported() -> None:
    assert len(problems_of(r"PATH_MAPPING_CONFIG = {'input': {'\ud800': 'obs://bucket/x'}}")) == 1
