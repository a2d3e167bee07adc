"""Files that a training writes outside of its outputs: a warning names them, and the exit code stays."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ma_boot.node.boot.stray_files import MOST_ENTRIES, Look, StrayFiles, find_stray_files
from ma_boot.node.environment.generated_files import CACHES
from tests.functional.node import Ended, Node
from tests.transfers import write
from tests.unit.project.imports import ROOT

OUTPUTS = {"out": "obs://bucket/out/"}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path, devices=1)
    node.complete_table()
    return node


def train(node: Node, *lines: str, options: list[str] = []) -> Ended:  # noqa: B006 -- never changed
    """Runs a training of these lines, in the job's code directory."""
    script = node.home / "modelarts" / "user-job-dir" / "code" / "train.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("import os, shutil, sys\nfrom pathlib import Path\n" + "\n".join(lines) + "\n")
    return node.boot(*node.mapping({}, OUTPUTS), *options, str(script))


def strays(ended: Ended) -> list[str]:
    return re.findall(r"\[ma_boot\] (?:warning: )?(.*outside of the outputs.*)", ended.output)


SAVES = "os.makedirs('out', exist_ok=True); open('out/a.pt', 'w').close()"


@pytest.mark.invariant("Files written outside of the outputs are reported and do not change the exit code")
def test_model_in_the_working_directory_is_named_and_the_exit_code_stays(node: Node) -> None:
    ended = train(node, SAVES, "open('model.pt', 'wb').write(b'x' * 2000)", "open('log.txt', 'w').write('y')")
    assert ended.code == 0, ended.output
    line = "2 files (2.0 kB) were written outside of the outputs and are lost on ModelArts: model.pt, log.txt"
    assert strays(ended) == [f"{line}; save them below an output"]
    assert f"[ma_boot] warning: {line}" in ended.output
    (event,) = [event for event in node.events() if event["kind"] == "stray files"]
    assert (event["files"], event["bytes"], event["names"]) == (2, 2001, ["model.pt", "log.txt"])


def test_file_beside_the_script_is_found_too(node: Node) -> None:
    ended = train(node, SAVES, "Path(__file__).with_name('model.pt').write_text('x')")
    assert "1 file (1 B) was written outside of the outputs and is lost on ModelArts" in ended.output
    assert strays(ended)[0].endswith(": modelarts/user-job-dir/code/model.pt; save it below an output")


def test_stray_files_are_reported_after_a_failure_too(node: Node) -> None:
    ended = train(node, "open('model.pt', 'w').close()", "sys.exit(3)")
    assert ended.code == 3
    assert len(strays(ended)) == 1
    assert "exit code 3" in ended.output.splitlines()[-1]


@pytest.mark.invariant("Files written outside of the outputs are reported and do not change the exit code")
def test_no_line_where_only_known_files_were_written(node: Node) -> None:
    write(
        node.home, {"data/old.bin": b"x", "old.txt": b"x", "env/pyvenv.cfg": b"", "conda/conda-meta/x": b""}
    )
    (node.home / "elsewhere").symlink_to(node.root)
    names = [
        "__pycache__/a.pyc", "kernel_meta/a.o", "akg_kernel_meta/a", "rank_0/om/a.ir", "fusion_result.json", "b.pyc",
        ".cache/a", ".hidden", "compile_cache/rank_0/graph_cache/a", "env/lib/a", "conda/lib/a", "out/deep/a",
        "elsewhere/a", "modelarts/log/mine.txt",
    ]  # fmt: skip
    ended = train(
        node,
        f"for name in {names!r}:",
        "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True); open(name, 'w').close()",
        "os.chmod('old.txt', 0o600)",
        "shutil.copy2('data/old.bin', 'copied.bin')",
    )
    assert ended.code == 0, ended.output
    assert strays(ended) == []


def test_outputs_of_form_and_mapping_are_not_stray(node: Node) -> None:
    form = node.home / "modelarts" / "outputs" / "train_url_0"
    form.mkdir(parents=True)
    entry = (
        f'{{"name": "train_url", "local_dir": "{form}", "remote": {{"obs": {{"obs_url": "obs://b/x/"}}}}}}'
    )
    node.variables["MA_OUTPUTS"] = f'{{"outputs": [{entry}]}}'
    ended = train(node, SAVES, f"open({str(form / 'model.pt')!r}, 'w').close()")
    assert (ended.code, strays(ended)) == (0, []), ended.output


def test_each_rank_directory_is_part_of_the_working_directory(node: Node) -> None:
    ended = train(node, "open('model.pt', 'w').close()", options=["--workdir", "per-rank"])
    assert re.findall(r"device_?0/model.pt", strays(ended)[0]), ended.output
    assert strays(ended)[0].startswith("1 file")


def test_other_platforms_keep_their_working_directory(node: Node) -> None:
    node.variables["MABOOT_PLATFORM"] = "bare"
    ended = train(node, SAVES, "open('model.pt', 'w').close()", options=["--rendezvous", "none"])
    assert strays(ended) == [], ended.output


def test_second_start_does_not_report_files_of_the_first(node: Node) -> None:
    assert len(strays(train(node, SAVES, "open('model.pt', 'w').close()"))) == 1
    assert strays(train(node, SAVES)) == []


@pytest.mark.parametrize("bound", ["entries", "seconds"])
def test_search_has_bounds_and_names_them(tmp_path: Path, bound: str) -> None:
    count = MOST_ENTRIES + 1 if bound == "entries" else 3
    for number in range(count):
        (tmp_path / str(number)).touch()
    seconds = 60 if bound == "entries" else 0
    found = find_stray_files(Look((str(tmp_path),), (), 0), time.monotonic() + seconds)
    assert not found.complete
    assert len(found.files) == (MOST_ENTRIES if bound == "entries" else 0)
    if bound == "entries":
        assert found.line().startswith(f"at least {MOST_ENTRIES} files (0 B) were written")


def test_directory_that_may_not_be_read_and_a_root_that_is_gone_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"a/b": b"x"})
    (tmp_path / "pipe").symlink_to("nothing")
    found = find_stray_files(Look((str(tmp_path / "gone"), str(tmp_path)), (), 0), time.monotonic() + 60)
    assert found == StrayFiles(((str(tmp_path / "a/b"), 1),), True)


def test_documented_list_of_caches_is_the_one_in_the_code() -> None:
    text = (ROOT / "docs" / "path-mapping.md").read_text()
    documented = text.partition("## Files outside of the outputs")[2].partition("\n## ")[0]
    assert [pattern for pattern in CACHES[1:] if f"`{pattern}`" not in documented] == []
