"""`ma_boot checkpoint ...`: lists, verifies, downloads and removes checkpoints in OBS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ma_boot.cli.app import main
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import keys, make_nodes, publish, put, start

WHERE = "obs://bucket/ckpt"


@pytest.fixture
def saved(tmp_path: Path, local_store: Store) -> Store:
    """Two nodes that have saved three steps, of which the last is incomplete."""
    nodes = make_nodes(local_store, tmp_path)
    start(nodes)
    publish(nodes, 10, 20)
    nodes[0].publish(30)
    return local_store


def run(*words: str) -> int:
    return main(["checkpoint", *words, "--obs-root", "obs"], {"HOME": "/nowhere"})


def printed(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_list_shows_complete_checkpoints_and_the_reasons_of_incomplete_ones(
    saved: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("list", WHERE) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "3 checkpoints in obs://bucket/ckpt/"
    assert lines[1].split() == ["STEP", "ATTEMPT", "PUBLISHED", "(UTC)", "NODES", "FILES", "SIZE", "STATE"]
    assert lines[2].startswith("30 ")
    assert lines[2].endswith("incomplete: no part of saver 1")
    assert lines[3].startswith("20 ")
    assert lines[3].endswith("complete")
    assert " 2  " in lines[3]
    assert run("list", WHERE, "--json") == 0
    rows = printed(capfd)
    assert [(row["step"], row["complete"], row["nodes"], row["files"]) for row in rows] == [
        ("30", False, None, None),
        ("20", True, 2, 2),
        ("10", True, 2, 2),
    ]


def test_empty_place_has_no_checkpoints(saved: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("list", "obs://bucket/other") == 0
    assert capfd.readouterr().out == "0 checkpoints in obs://bucket/other/\n"
    assert run("verify", "obs://bucket/other") == 66
    assert "no complete checkpoint in obs://bucket/other/" in capfd.readouterr().err


def test_verify_finds_changed_objects(saved: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("verify", WHERE, "--contents") == 0
    assert "step 20 of attempt-000001-" in capfd.readouterr().out
    key = next(key for key in keys(saved) if key.endswith("node-1/iter_20/rank_1.bin"))
    put(saved, key, b"2x of node 1" * 99)
    assert run("verify", WHERE) == 65
    assert f"  - obs://bucket/{key} was replaced" in capfd.readouterr().err
    assert run("verify", WHERE, "--step", "10", "--json") == 0
    assert printed(capfd)[0]["problems"] == []
    saved.delete("bucket", key)
    assert run("verify", WHERE, "--contents") == 65
    assert f"  - obs://bucket/{key} is gone" in capfd.readouterr().err


def test_fetch_downloads_the_files_of_all_nodes(
    saved: Store, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("fetch", WHERE, "--to", "there", "--step", "10") == 0
    assert "2 files, " in capfd.readouterr().out
    downloaded = sorted(str(file.relative_to(tmp_path)) for file in (tmp_path / "there").rglob("*.bin"))
    assert downloaded == ["there/iter_10/rank_0.bin", "there/iter_10/rank_1.bin"]
    assert run("fetch", WHERE, "--to", "there", "--json") == 0
    assert (tmp_path / "there/iter_20/rank_1.bin").read_bytes() == b"20 of node 1" * 99


def test_prune_keeps_the_newest_checkpoints_and_the_one_in_use(
    saved: Store, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mapping.yaml").write_text(
        f"output: {{out: {{obs: '{WHERE}', checkpoint: 'iter_{{step}}', keep: 1}}}}"
    )
    assert run("prune", "mapping.yaml", "--plan") == 0
    assert "1 checkpoints and 0 files without a manifest would be removed" in capfd.readouterr().out
    assert run("prune", "mapping.yaml") == 0
    assert "step 10 of attempt-000001-" in capfd.readouterr().out
    assert not [key for key in keys(saved) if "iter_10" in key]
    assert run("list", WHERE, "--json") == 0
    assert [row["step"] for row in printed(capfd)] == ["30", "20"]
    nodes = make_nodes(saved, tmp_path / "again")
    start(nodes)
    publish(nodes, 40)
    assert run("prune", WHERE, "--keep", "1") == 0
    assert "step 30 of attempt-000001-" in capfd.readouterr().out, (
        "an attempt that is over cannot complete it"
    )
    assert run("list", WHERE, "--json") == 0
    assert [row["step"] for row in printed(capfd)] == ["40", "20"], "the running job has resumed from step 20"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["list", "nothing.yaml"], 78, "nothing.yaml"),
        (["list", "obs://B/x"], 64, "found the bucket 'B'"),
        (["prune", WHERE, "--older-than", "soon"], 64, "expected e.g. 7d"),
        (["verify", WHERE, "--step", "77"], 66, "no complete checkpoint of step 77"),
    ],
)
def test_wrong_usage_has_its_exit_code_and_message(
    saved: Store, capfd: pytest.CaptureFixture[str], words: list[str], code: int, why: str
) -> None:
    assert run(*words) == code
    assert why in capfd.readouterr().err
