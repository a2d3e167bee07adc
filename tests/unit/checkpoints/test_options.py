"""The options of outputs that have checkpoints, in the three formats, and every mistake in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from ma_boot.node.checkpoints.options import OPTIONS, CheckpointOptions, write_options
from path_mapping.errors import MappingInvalid
from path_mapping.mapping.mapping_file import parse_mapping as parsed
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route

PLACES = {"job": "j1", "node": "3", "rank": "24"}
URL = "obs://bucket/{job}/ckpt/"


def parse_mapping(text: str, source: str, places: dict[str, str]) -> PathMapping:
    return parsed(text, source, places, OPTIONS)


def in_format(source: str, mapping: Any) -> str:
    return {
        "m.py": f"PATH_MAPPING_CONFIG = {mapping!r}",
        "m.json": json.dumps(mapping),
        "m.yaml": yaml.safe_dump(mapping, sort_keys=False),
    }[source]


def problems_of(options: dict[str, Any], section: str = "output", source: str = "m.json") -> Sequence[str]:
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(in_format(source, {section: {"ckpt": {"obs": URL, **options}}}), source, PLACES)
    return raised.value.problems


@pytest.mark.parametrize("source", ["m.py", "m.json", "m.yaml"])
@pytest.mark.parametrize(
    ("layout", "read"),
    [
        ("auto", ("auto",)),
        ("explicit", ("auto",)),
        (["explicit", "iter_{step}"], ("iter_{step}",)),
        ("mindspore", ("mindspore",)),
        ("iter_{step}", ("iter_{step}",)),
        (["model-{step}.pt", "rank_{rank}/{epoch}_{step}/*.pt"], ("model-{step}.pt", "rank_{rank}/{epoch}_{step}/*.pt")),
    ],
)  # fmt: skip
def test_options_of_an_output_are_read_and_written(source: str, layout: Any, read: Sequence[str]) -> None:
    options = {
        "obs": URL,
        "checkpoint": layout,
        "savers": [2, 0],
        "keep": 3,
        "restore": "latest",
        "interval": 5,
    }
    more = CheckpointOptions(tuple(read), "explicit" in layout, (0, 2), 3, True)
    route = Route("ckpt", ObsUrl("bucket", "j1/ckpt/"), more=more, interval=5)
    again = {"ckpt": {"obs": "obs://bucket/j1/ckpt/", "interval": 5, **write_options(more)}}
    assert parse_mapping(in_format(source, {"output": again}), source, PLACES).outputs == (route,)
    assert parse_mapping(in_format(source, {"output": {"ckpt": options}}), source, PLACES) == PathMapping(
        (), (route,)
    )


def test_mapping_without_checkpoints_is_unchanged() -> None:
    mapping = parse_mapping(in_format("m.json", {"output": {"ckpt": URL}}), "m.json", PLACES)
    assert mapping.outputs == (Route("ckpt", ObsUrl("bucket", "j1/ckpt/")),)
    with pytest.raises(MappingInvalid, match="found the key 'checkpoint', expected one of obs, include"):
        parsed(
            in_format("m.json", {"output": {"ckpt": {"obs": URL, "checkpoint": "auto"}}}), "m.json", PLACES
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": True}, "checkpoint: found True, expected one of auto, explicit, accelerate, dcp, "),
        ({"checkpoint": []}, "checkpoint: found [], expected one of auto"),
        ({"checkpoint": ["iter_{step}", 3]}, "expected one of auto"),
        ({"checkpoint": "mindspor"}, "checkpoint: found 'mindspor', expected one of auto, explicit, accelerate, dcp, "),
        ({"checkpoint": ["auto", "iter_{step}"]}, "checkpoint: found 'auto', expected one of"),
        ({"checkpoint": "iter_{stp}"}, "checkpoint: found the placeholder {stp}, expected {step}, {epoch} or {rank}"),
        ({"checkpoint": "iter_{epoch}"}, "checkpoint: found 'iter_{epoch}', expected a pattern with {step}"),
        ({"checkpoint": "iter_{step"}, "checkpoint: found a single '{', expected '{{' for a brace in a name"),
        ({"checkpoint": "**/iter_{step}"}, "found '**' in '**/iter_{step}', expected '*', which stands for a part"),
        ({"checkpoint": "/iter_{step}"}, "found '/iter_{step}', expected a relative path"),
        ({"checkpoint": "a/./iter_{step}"}, "expected a relative path without '.' and '..'"),
        ({"checkpoint": "../iter_{step}"}, "expected a relative path"),
        ({"checkpoint": "auto", "keep": 0}, "keep: found 0, expected a number of checkpoints, at least 1"),
        ({"checkpoint": "auto", "keep": True}, "keep: found True, expected a number of checkpoints"),
        ({"checkpoint": "auto", "keep": "3"}, "keep: found '3', expected a number of checkpoints"),
        ({"checkpoint": "auto", "restore": True}, "restore: found True, expected 'latest'"),
        ({"checkpoint": "auto", "savers": "some"}, "savers: found 'some', expected 'all', 'first', or a list of nodes"),
        ({"checkpoint": "auto", "savers": []}, "savers: found [], expected 'all'"),
        ({"checkpoint": "auto", "savers": [-1]}, "savers: found [-1], expected 'all'"),
        ({"savers": "first"}, "'savers' needs 'checkpoint'"),
        ({"keep": 3}, "'keep' needs 'checkpoint', for example 'checkpoint': 'auto'"),
        ({"restore": "latest"}, "'restore' needs 'checkpoint'"),
        ({"checkpoint": "auto", "delete": True}, "'delete' does not go with 'checkpoint': 'keep' is the number of"),
        ({"checkpoint": "auto", "obs": "obs://bucket/{node}/"}, "found {node} in the URL of checkpoints, expected the same URL"),
        ({"checkpoint": "auto", "obs": "obs://bucket/{rank}/"}, "found {rank} in the URL of checkpoints, expected the same URL"),
    ],
)  # fmt: skip
def test_wrong_option_is_reported_with_its_place(options: dict[str, Any], message: str) -> None:
    (problem,) = problems_of(options)
    assert problem.startswith("output: 'ckpt': ")
    assert message in problem


def test_options_are_valid_for_outputs_only() -> None:
    options = {"checkpoint": "auto", "keep": 3, "restore": "latest"}
    assert [problem.partition(": 'ckpt': ")[2] for problem in problems_of(options, "input")] == [
        f"{name!r} is valid for an output only" for name in options
    ]


def test_all_wrong_options_are_reported_at_once_with_lines() -> None:
    options = {"checkpoint": "iter_{stp}", "keep": 0, "restore": "best", "delete": True}
    problems = problems_of(options, source="m.yaml")
    assert len(problems) == 4
    assert [problem.partition(":")[0] for problem in problems] == ["line 7", "line 4", "line 5", "line 6"]


NO_INPUT = "obs://bucket/ckpt/ has checkpoints, which cannot be an input: 'restore': 'latest' of"


@pytest.mark.parametrize(
    ("local", "key", "message"),
    [
        ("from", "", NO_INPUT),
        ("from", "ckpt/", NO_INPUT),
        ("from", "ckpt/x", NO_INPUT),
        ("ckpt", "base/", "'ckpt' is the same as the directory of checkpoints 'ckpt'"),
    ],
)
def test_checkpoints_cannot_be_an_input(local: str, key: str, message: str) -> None:
    """The objects below their URL are attempts and manifests, not a tree of input files."""
    mapping = {
        "input": {local: f"obs://bucket/{key}"},
        "output": {"ckpt": {"obs": "obs://bucket/ckpt/", "checkpoint": "auto"}},
    }
    with pytest.raises(MappingInvalid) as raised:
        parse_mapping(json.dumps(mapping), "m.json", PLACES)
    (problem,) = raised.value.problems
    assert message in problem
