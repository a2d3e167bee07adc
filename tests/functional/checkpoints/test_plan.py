"""`ma_boot sync plan` previews the effects of a start on the checkpoints of an output, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.cli.app import main
from path_mapping.stores.store import Store
from tests.functional.checkpoints.output import node_with
from tests.transfers import write


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, local_store: Store) -> None:
    """A node that has published steps 10 and 20, and has begun 30; it keeps a log beside them."""
    node = node_with(local_store, tmp_path, 10, 20)
    node.save(30, {"rank_0.bin": b"half"})
    write(node.out, {"train.log": b"logged"})


def plan(tmp_path: Path, capfd: pytest.CaptureFixture[str], options: str, *words: str) -> list[str]:
    (tmp_path / "mapping.yaml").write_text(
        f"output: {{out: {{obs: 'obs://bucket/ckpt', checkpoint: 'iter_{{step}}', {options}}}}}"
    )
    before = sorted(tmp_path.rglob("*"))
    assert main(["sync", "plan", "mapping.yaml", "--obs-root", "obs", *words], {"HOME": "/nowhere"}) == 0
    assert sorted(tmp_path.rglob("*")) == before, "nothing was moved or made"
    return capfd.readouterr().out.splitlines()


def test_plan_shows_restored_kept_moved_and_removed_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = plan(tmp_path, capfd, "restore: latest, keep: 1")
    (attempt,) = {path.name for path in (tmp_path / "obs/bucket/ckpt").glob("attempt-*")}
    assert lines == [
        "output out -> obs://bucket/ckpt:",
        f"  restore          1,188  step 20 of {attempt}  (the newest complete checkpoint)",
        "  aside            1,188  step 10 on this disk  (not of the restored checkpoint: moved beside the output)",
        "  keep             1,188  step 20 on this disk  (of the restored checkpoint, if the checksums are the same)",
        "  aside                4  step 30 on this disk  (not of the restored checkpoint: moved beside the output)",
        f"  remove               0  step 10 of {attempt}  "
        "(older than the newest 1: when a checkpoint of this start is complete)",
        "  copy             1,188  iter_10/rank_0.bin  (not in OBS)",
        "  copy             1,188  iter_20/rank_0.bin  (not in OBS)",
        "  copy                 4  iter_30/rank_0.bin  (not in OBS)",
        "  copy                 6  train.log  (not in OBS)",
        "  copy 4 (2.4 kB)",
        "in all: copy 4 (2.4 kB)",
    ]


def test_steps_on_the_disk_stay_ordinary_files_without_restore(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, object]] = [json.loads(line) for line in plan(tmp_path, capfd, "", "--json")]
    planned = [
        (row["action"], row["name"], row["files"], row["bytes"]) for row in rows[:-1] if "files" in row
    ]
    assert planned == [
        ("stay", f"step {step} on this disk", 1, size) for step, size in ((10, 1188), (20, 1188), (30, 4))
    ]
    assert [row["name"] for row in rows if row.get("section") == "output"] == [
        *(f"iter_{step}/rank_0.bin" for step in (10, 20, 30)),
        "train.log",
    ]


def test_plan_reports_that_no_checkpoint_is_complete(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for manifest in (tmp_path / "obs/bucket/ckpt/.ma_boot/manifests").rglob("part-*"):
        manifest.rename(manifest.with_name("part-00000-of-00002.json"))
    lines = plan(tmp_path, capfd, "restore: latest")
    assert "incomplete: no part of saver 1" in lines[1]
    assert any(
        line.endswith("nothing  (no checkpoint is complete: the training starts from the beginning)")
        for line in lines
    )
