"""The mapping file in its formats: URLs, options, placeholders, and every mistake with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from ma_boot.desk.job.readers import JobProblem, read_url
from path_mapping.errors import MappingInvalid
from path_mapping.mapping.document import ScalarValue
from path_mapping.mapping.mapping_file import parse_mapping, read_mapping
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route, expand_placeholders

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


YAML = """
input:
  # the images, sharded over the nodes
  data:
    obs: obs://bucket/data/
    include: ['*.bin', '!*_batch.bin']
    exclude: [tmp/]
    shard: true
    checksum: yes
  labels.json: s3://bucket/labels.json
output:
  ckpt: {obs: 'obs://bucket/{job}/node-{node}/', interval: 600, required: false, delete: true}
"""
PLACES = {"job": "j1", "node": "3", "rank": "24"}


def problems_of(text: str, source: str = "m.yaml", places: Any = PLACES) -> Sequence[str]:
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(text, source, places)
    return raised.value.problems


def rendered(mapping: Any) -> dict[str, str]:
    return {
        "m.py": f"PATH_MAPPING_CONFIG = {mapping!r}",
        "m.json": json.dumps(mapping),
        "m.yaml": yaml.safe_dump(mapping, allow_unicode=True, sort_keys=False),
    }


def test_every_option_is_read() -> None:
    assert parse_mapping(YAML, "m.yml", PLACES) == PathMapping(
        (
            Route(
                "data",
                ObsUrl("bucket", "data/"),
                include=("*.bin", "!*_batch.bin"),
                exclude=("tmp/",),
                shard=True,
                checksum=True,
            ),
            Route("labels.json", ObsUrl("bucket", "labels.json")),
        ),
        (Route("ckpt", ObsUrl("bucket", "j1/node-3/"), interval=600.0, required=False, delete=True),),
    )


@pytest.mark.parametrize("source", ["m.py", "m.json", "m.yaml"])
def test_all_formats_give_the_same_mapping(source: str) -> None:
    text = rendered(yaml.safe_load(YAML))[source]
    assert parse_mapping(text, source, PLACES) == parse_mapping(YAML, "m.yml", PLACES)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("m.yaml", "input:\n"),
        ("m.json", "{}"),
        ("x", "PATH_MAPPING_CONFIG = {}"),
        ("x", "'''Doc.'''\nPATH_MAPPING_CONFIG: dict = {'input': {}}"),
    ],
)
def test_an_empty_mapping_is_valid(source: str, text: str) -> None:
    assert parse_mapping(text, source) == PathMapping((), ())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{shard: 1}", "input: 'a': no 'obs', expected 'obs': 'obs://bucket/path'"),
        (
            "{obs: 'obs://bucket/x', size: 1}",
            "input: 'a': found the key 'size', expected one of obs, include,",
        ),
        ("{obs: 'obs://bucket/x', shard: 1}", "input: 'a': shard: found 1, expected true or false"),
        ("{obs: 'obs://bucket/x', shard: 'no'}", "input: 'a': shard: found 'no', expected true or false"),
        ("{obs: 'obs://bucket/x', interval: 9}", "input: 'a': 'interval' is valid for an output only"),
        (
            "{obs: 'obs://bucket/x', include: '*'}",
            "input: 'a': include: found '*', expected a list of patterns",
        ),
        (
            "{obs: 'obs://bucket/x', include: [1]}",
            "input: 'a': include: found 1, expected a pattern as a string",
        ),
        ("{obs: 'obs://bucket/x', exclude: ['!']}", "exclude: found '!', expected a .gitignore pattern"),
        ("{obs: 'obs://bucket/x', exclude: ['# a']}", "exclude: found '# a', expected a .gitignore pattern"),
        ("{obs: 'obs://bucket/x', include: ['[z-a]']}", "found '[z-a]', expected a .gitignore pattern"),
        ("{obs: 3}", "input: 'a': found 3, expected 'obs://bucket/path'"),
        ("[obs]", "input: found a list, expected 'obs://bucket/path'"),
        ("2020-01-01", "input: found 2020-01-01, expected 'obs://bucket/path'"),
        ("obs://bucket/{jobs}", "found the placeholder {jobs}, expected {job}, {node} or {rank}"),
        ("obs://bucket/{job", "found a single '{', expected '{{' for a brace in a name"),
        ("obs://{job}/x", "found the bucket 'j1', expected 3 to 63"),
    ],
)
def test_a_mistake_in_an_option_is_reported_with_its_line(value: str, expected: str) -> None:
    (problem,) = problems_of(f"input:\n  # comment\n  a: {value if value[0] in '{[2' else repr(value)}\n")
    assert problem.startswith("line 3: ")
    assert expected in problem


@pytest.mark.parametrize("seconds", ["0", "-3", "true", "'60'", ".inf", ".nan", "null"])
def test_an_interval_is_a_number_of_seconds(seconds: str) -> None:
    (problem,) = problems_of(f"output: {{a: {{obs: 'obs://bucket/x', interval: {seconds}}}}}")
    assert "expected a number of seconds, at least 1" in problem


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("m.yaml", "input: {a: 'obs://bucket/x'}\ninput: {}", "line 2: duplicate key 'input'"),
        ("m.yaml", "input:\n  a: obs://bucket/x\n  a: obs://bucket/y", "line 3: input: duplicate key 'a', first on line 2"),
        ("m.yaml", "input:\n  a: {obs: 'obs://bucket/x', obs: 'obs://bucket/y'}", "line 2: input: 'a': duplicate key 'obs'"),
        ("m.json", '{"input": {"a": "obs://bucket/x", "a": "obs://bucket/y"}}', "input: duplicate key 'a'"),
        ("m.json", "{'input': {}}", "line 1: not JSON: "),
        ("m.json", '{"input": NaN}', "found NaN, expected a number"),
        ("m.yaml", "input: [", "line 1: not YAML: "),
        ("m.yaml", "a: \0", "line 1: not YAML: the character '\\x00'"),
        ("m.yaml", "input: &x {a: 'obs://bucket/x'}\noutput: *x", "found an alias"),
        ("m.yaml", "input: !!python/object/apply:os.system ['true']", "not YAML|expected a dict"),
        ("m.yaml", "- 1", "line 1: the document: expected a dict"),
        ("m.yaml", "", "line 1: the document: expected a dict {'input': ..., 'output': ...}"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'a': {'obs': 'obs://bucket/x', 'shard': f()}}}", "found f(), expected true"),
        ("m.py", 'PATH_MAPPING_CONFIG = {', 'line 1: not Python'),
        ("m.py", '', 'no PATH_MAPPING_CONFIG = {...} found'),
        ("m.py", 'X = {}', 'line 1: found other code'),
        ("m.py", 'import os\nPATH_MAPPING_CONFIG = {}', 'line 1: found other code'),
        ("m.py", 'PATH_MAPPING_CONFIG = {}\nPATH_MAPPING_CONFIG = {}', 'line 2: PATH_MAPPING_CONFIG is assigned a second'),
        ("m.py", 'PATH_MAPPING_CONFIG = dict()', 'line 1: PATH_MAPPING_CONFIG: expected a dict'),
        ("m.py", "PATH_MAPPING_CONFIG = {'inputs': {}}", "found the key 'inputs', expected one of input, output"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': []}", 'input: expected a dict'),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {1: 'obs://bucket/x'}}", 'found 1, expected a local path'),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'': 'obs://bucket/x'}}", "found '', expected a local path"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {**x}}", 'found **, expected a local path'),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'a': 'b'}}", "found 'b', expected 'obs://bucket/path'"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'a': f'obs://{x}/'}}", "expected 'obs://bucket/path'"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'a': 'obs://Big/x'}}", "found the bucket 'Big'"),
        ("m.py", "PATH_MAPPING_CONFIG = {'input': {'a': 'obs://bucket/x',\n'a': 'obs://bucket/y'}}", "line 2: input: duplicate key 'a', first on line 1"),
    ],
)  # fmt: skip
def test_a_mistake_in_any_format_is_reported(source: str, text: str, expected: str) -> None:
    problems = problems_of(text, source)
    assert any(part in problem for problem in problems for part in expected.split("|")), problems


def test_mistakes_of_all_kinds_are_reported_at_once() -> None:
    text = """
input:
  a: {obs: http://x, shard: 2}
  a/b: obs://bucket/x
  c: obs://bucket/job/
more: 1
output:
  c/out: obs://bucket/job/out
  d: {obs: 'obs://bucket/{jo}', interval: soon}
"""
    assert problems_of(text) == (
        "line 6: found the key 'more', expected one of input, output",
        "line 3: input: 'a': found 'http://x', expected 'obs://bucket/path'",
        "line 3: input: 'a': shard: found 2, expected true or false",
        "line 9: output: 'd': found the placeholder {jo}, expected {job}, {node} or {rank}",
        "line 9: output: 'd': interval: found 'soon', expected a number of seconds, at least 1",
        "output: 'c/out' is inside the input 'c'",
        "output: obs://bucket/job/out is inside the input obs://bucket/job/",
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"a": "x/", "a/b": "y/"}, {}, ["input: 'a/b' is inside 'a': use separate paths"]),
        ({"a/b": "x/", "a": "y/"}, {}, ["input: 'a' contains 'a/b': use separate paths"]),
        ({".": "x/", "b": "y/"}, {}, ["input: 'b' is inside '.': use separate paths"]),
        ({"a": "x/", "ab": "x2/", "b": "x/"}, {}, []),  # one source may have two targets; names that only look alike
        ({"/a": "x/", "a": "y/"}, {}, []),
        ({}, {"a": "x/", "b": "x"}, ["output: 'b': obs://bucket/x is the same as obs://bucket/x/ of 'a': use separate URLs"]),
        ({}, {"a": "", "b": "x"}, ["output: 'b': obs://bucket/x is inside obs://bucket/ of 'a': use separate URLs"]),
        ({}, {"a": "x", "a/b": "y"}, []),  # a file that goes to two places
        ({"a": "x/"}, {"a": "x/"}, []),  # to continue an earlier run
        ({"a": "x/"}, {"a/b": "y/"}, ["output: 'a/b' is inside the input 'a'"]),
        ({"a/b": "y/"}, {"a": "x/"}, []),
        ({"a": "x/"}, {"b": "x/y"}, ["output: obs://bucket/x/y is inside the input obs://bucket/x/"]),
    ],
)  # fmt: skip
def test_routes_that_must_not_be_combined(
    inputs: dict[str, str], outputs: dict[str, str], expected: Sequence[str]
) -> None:
    sections = {"input": inputs, "output": outputs}
    mapping = {
        name: {key: f"obs://bucket/{url}" for key, url in urls.items()} for name, urls in sections.items()
    }
    if expected:
        assert list(problems_of(json.dumps(mapping), "m.json")) == expected
    else:
        parse_mapping(json.dumps(mapping), "m.json")


@pytest.mark.parametrize(
    ("text", "value"),
    [("{job}/{node}/{rank}", "j1/3/24"), ("{{job}}", "{job}"), ("{{{job}}}", "{j1}"), ("a", "a"), ("", "")],
)
def test_placeholders_are_replaced(text: str, value: str) -> None:
    assert expand_placeholders(text, PLACES) == value


def test_a_placeholder_without_a_value_is_reported() -> None:
    (problem,) = problems_of("input: {'{rank}': 'obs://bucket/x'}", "m.yaml", {"job": "j"})
    assert problem == "line 1: input: found {rank}, which has no value here"


NAMES = st.text(st.sampled_from("ab{}é /.'\"\\#:\n*"), min_size=1, max_size=8)
OPTIONS = st.fixed_dictionaries(
    {"obs": st.sampled_from(["obs://bucket/x", "s3://my.bucket/{job}/"])},
    optional={
        "include": st.lists(st.sampled_from(["*.a", "b/", "!c"]), max_size=3),
        "interval": st.one_of(st.integers(-1, 5), st.floats(allow_nan=False, allow_infinity=False)),
        "shard": st.booleans(),
        "other": st.none(),
    },
)
MAPPINGS = st.dictionaries(
    st.sampled_from(["input", "output"]),
    st.dictionaries(NAMES, st.one_of(OPTIONS, NAMES, st.just("obs://bucket/y")), max_size=3),
    max_size=2,
)


@given(MAPPINGS)
def test_any_mapping_is_the_same_in_each_format(mapping: Any) -> None:
    """Either the same routes, or the same number of mistakes."""
    readings: list[Any] = []
    for source, text in rendered(mapping).items():
        try:
            readings.append(parse_mapping(text, source, PLACES))
        except MappingInvalid as error:
            readings.append(len(error.problems))
    assert readings[0] == readings[1] == readings[2]


@given(st.text(), st.sampled_from(["m.json", "m.yaml", "m.py"]))
def test_no_text_crashes_a_reader(text: str, source: str) -> None:
    try:
        parse_mapping(f"PATH_MAPPING_CONFIG = {text}" if source == "m.py" else text, source)
    except MappingInvalid as error:
        assert error.problems


@pytest.mark.invariant("A mapping is never executed")
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
def test_an_invalid_url_is_reported_with_the_expected_form(text: str) -> None:
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
def test_invisible_characters_of_a_typed_url_are_named(text: str, name: str) -> None:
    """The mapping, the job file and the command line; objects with such names are read by other ways."""
    with pytest.raises(ValueError, match=re.escape(name)):
        ObsUrl.typed(text)
    assert ObsUrl.parse(text).bucket == "bucket"
    (problem,) = problems_of(f"PATH_MAPPING_CONFIG = {{'input': {{'a': {text!r}}}}}", "m.py")
    assert f"line 1: input: found {text!r}, expected a path without {name}" in problem
    problems: list[JobProblem] = []
    assert read_url("code-url", ScalarValue(3, repr(text), text), problems) is None
    assert name in str(problems[0])


def test_visible_characters_of_a_typed_url_are_accepted() -> None:
    for key in ("a b/c", "数据/集", "naïve", "\u3042"):
        assert ObsUrl.typed(f"obs://bucket/{key}").key == key


@pytest.mark.parametrize("other", ["./a", "a/", "x/../a", ".//a"])
def test_two_spellings_of_one_local_path_are_duplicate_keys(other: str) -> None:
    problems = problems_of(
        f"PATH_MAPPING_CONFIG = {{'output': {{'a': 'obs://bucket/x',\n{other!r}: 'obs://bucket/y'}}}}", "m.py"
    )
    assert problems == (f"line 2: output: duplicate key {other!r}, the same path as 'a', first on line 1",)


@pytest.mark.parametrize(
    ("text", "directory", "pattern"),
    [
        ("out/*.pt", "out", "*.pt"),
        ("/cache/out/step-?/*.pt", "/cache/out", "step-?/*.pt"),
        ("*.pt", ".", "*.pt"),
        ("/*", "/", "*"),
    ],
)
def test_pattern_in_a_local_path_is_pointed_to_include(text: str, directory: str, pattern: str) -> None:
    for section in ("input", "output"):
        (problem,) = problems_of(f"{section}:\n  {text!r}: obs://bucket/x/")
        assert problem == (
            f"line 2: {section}: found {text!r}, expected a local path without '*' and '?': "
            f"write {directory!r} with include: [{pattern!r}]"
        )


def test_an_impossible_local_path_is_reported() -> None:
    assert len(problems_of(r"PATH_MAPPING_CONFIG = {'input': {'\ud800': 'obs://bucket/x'}}", "m.py")) == 1
