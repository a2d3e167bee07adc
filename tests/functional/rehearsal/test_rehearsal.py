"""`ma_boot --local`: whole jobs on this machine, with a trivial training command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from html import escape
from pathlib import Path

import pytest

from tests.conftest import CREDENTIALS
from tests.functional.node import eventually
from tests.functional.rehearsal.jobs import (
    CHECKPOINTS,
    MAPPING,
    SHAPE,
    end,
    job_events,
    node_events,
    processes,
    rehearse,
    start,
    stopped_with_outputs,
    with_outputs,
    write,
)
from tests.obs import MemoryObs


def test_two_nodes_with_inputs_late_table_and_outputs(laptop: Path) -> None:
    words = ["await:data/x", "write:out/RANK:done", "print:hi"]
    # Long enough for each state to be seen, also by nodes that start late on a busy machine.
    ended = end(start(laptop, *SHAPE, *MAPPING, "project/train.py", *words, delay="15"))
    assert ended.code == 0, ended.output
    assert {f.name for f in (laptop / "obs" / "bucket" / "out").iterdir()} == {"0", "1", "2", "3"}
    assert "[node 1] [rank 3] hi\n" in ended.output
    for reason in ("does not exist yet", 'status is "initializing"', "not complete JSON ("):
        assert reason in ended.output


def test_obs_may_be_a_real_endpoint(laptop: Path, obs: MemoryObs) -> None:
    mapping = ["--path-mapping", "project/mapping.py"]
    reachable = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    missing = end(start(laptop, *mapping, "project/train.py", more=reachable))
    assert missing.code == 66
    assert "node 0: inputs: not in OBS" in missing.output.splitlines()[-1]
    assert "obs://bucket/data/" in missing.output.splitlines()[-1]
    output = "PATH_MAPPING_CONFIG = {'output': {'out': 'obs://bucket/out'}}"
    (laptop / "project" / "mapping.py").write_text(output)
    train = [*mapping, "project/train.py", "write:out/RANK:x"]
    ended = end(start(laptop, *train, more=reachable))
    assert ended.code == 0, ended.output
    assert ("PUT", "/bucket/out/0") in obs.requests
    assert "PLANTED" not in ended.output + missing.output


def test_a_good_rehearsal_prints_eight_lines_of_its_own_and_its_log_has_the_rest(laptop: Path) -> None:
    mapping = {"input": {"data": "obs://bucket/data/"}, "output": {"out": "obs://bucket/out/{node}/"}}
    (laptop / "project" / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = {mapping!r}\n")
    words = ("--nodes", "2", *MAPPING, "project/train.py", "write:out/RANK:x")
    lines = rehearse(laptop, *words, more={"MABOOT_VERBOSE": ""}).output.splitlines()
    (place,) = laptop.glob("ma_boot-rehearsal/ma-job-*")
    here = place.relative_to(laptop)
    starts = (
        f"[ma_boot] rehearsing 2 nodes x 1 device in {here}, with obs as OBS",
        "[node 0] [ma_boot] environment: done in",
        "[node 0] [ma_boot] inputs: done in",
        "[node 0] [ma_boot] rank table: done in",
        "[node 0] [ma_boot] launch: done in",
        "[ma_boot] 2 nodes x 1 device in",
        f"[ma_boot] page: {here}/report.html",
        "[ma_boot] exit code 0: success",
    )
    assert len(lines) == len(starts), lines
    for start_of_line in starts:
        assert any(line.startswith(start_of_line) for line in lines), (start_of_line, lines)
    assert all(len(line) < 120 for line in lines), lines
    assert lines[-3].endswith(": 2 processes ended with 0; outputs: 2 files, 2 B")
    logs = [file.read_text().splitlines() for file in sorted(place.glob("log/*-worker-*.log"))]
    assert [sum(": done in" in line for line in log) for log in logs] == [7, 7]
    assert [log[-1] for log in logs] == ["[ma_boot] exit code 0: success"] * 2
    everything = rehearse(laptop, "-v", *words, more={"MABOOT_VERBOSE": ""}).output.splitlines()
    assert sum(": done in" in line for line in everything) == 14


def test_the_code_is_copied_to_where_the_platform_puts_it(laptop: Path) -> None:
    ended = rehearse(laptop, "project/train.py", "print-arguments")
    assert "/home/ma-user/modelarts/user-job-dir/project/train.py" in ended.output
    environ = rehearse(laptop, "project/train.py", "print-environment").output
    assert "/of/another/job" not in environ


def test_a_file_to_source_is_found_in_the_code(laptop: Path) -> None:
    code = laptop / "sources"
    code.mkdir()
    (code / "env.sh").write_text("export SOURCED=in-the-code\n")
    (code / "train.sh").write_text('echo "sourced: $SOURCED"\n')
    ended = rehearse(laptop, "--source", "env.sh", "sources/train.sh")
    assert ended.code == 0, ended.output
    assert "sourced: in-the-code" in ended.output


def test_an_ended_rehearsal_keeps_logs_and_page_but_neither_code_nor_inputs(laptop: Path) -> None:
    with (laptop / "project" / "weights").open("wb") as file:
        file.truncate(60_000_000)
    form = ["--obs-root", "obs", "--input", "data_url=obs://bucket/data/"]
    ended = rehearse(laptop, "--nodes", "2", *form, "project/train.py", "print:hi")
    assert ended.code == 0, ended.output
    assert f"copying 60.0 MB of code in {laptop}/project to 2 nodes, until the end" in ended.output
    (kept,) = laptop.glob("ma_boot-rehearsal/ma-job-*")
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert [path for path in files if path.name in ("train.py", "weights", "x")] == []
    assert len([path for path in files if path.name.endswith("-device-0.txt")]) == 2
    assert (kept / "report.html") in files
    assert sum(path.stat().st_size for path in files) < 1_000_000


def test_a_rehearsal_beside_its_own_script_copies_no_sandbox(laptop: Path) -> None:
    (laptop / "list.py").write_text("import os\nprint('here:', os.listdir(os.path.dirname(__file__)))\n")
    rehearse(laptop, "list.py")
    (line,) = [line for line in rehearse(laptop, "list.py").output.splitlines() if "here:" in line]
    assert "list.py" in line
    assert "ma_boot-rehearsal" not in line


def test_old_rehearsals_are_removed_and_the_page_has_the_command_as_it_was_typed(laptop: Path) -> None:
    (laptop / "ok.py").write_text("print('ok')\n")
    for _ in range(2):
        ended = rehearse(laptop, "ok.py", "--token", "planted", more={"MABOOT_KEEP_REHEARSALS": "1"})
        assert ended.code == 0, ended.output
    (left,) = laptop.glob("ma_boot-rehearsal/ma-job-*")
    assert "1 old rehearsal removed" in ended.output
    (page,) = left.glob("report.html")
    text = page.read_text()
    assert "ok.py --token &#39;******&#39;</pre>" in text
    assert "planted" not in text
    assert '<a href="./node-0/home/ma-user/modelarts/log/' in text


def test_a_node_that_fails_stops_the_others_and_gives_its_code(laptop: Path) -> None:
    ended = rehearse(laptop, *SHAPE, "project/train.py", "exit:7:3", "sleep")
    assert ended.code == 7, ended.output
    assert "exit code 7: node 1, rank 3 ended with exit code 7" in ended.output.splitlines()[-1]
    assert processes(laptop) == []


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_ends_all_of_it_and_brings_outputs_home(laptop: Path, signum: int, code: int) -> None:
    running = start(
        laptop, *SHAPE, *MAPPING, "project/train.py", "write:out/RANK:x", "print:written", "sleep"
    )
    stopped_with_outputs(laptop, running, signum, code)


def test_ctrl_c_twice_leaves_nothing_behind_of_ranks_that_are_deaf(laptop: Path) -> None:
    shape = ["--nodes", "2", "--stop-timeout", "600"]
    running = start(laptop, *shape, "project/train.py", "deaf", "write:deaf-RANK:x", "sleep")
    eventually(
        lambda: len(list(laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/deaf-*"))) == 2, "the ranks"
    )
    running.send_signal(signal.SIGINT)
    eventually(lambda: len(node_events(laptop, "stop")) == 2, "the stop")
    running.send_signal(signal.SIGINT)
    ended = end(running)
    assert ended.code == 130, ended.output
    assert processes(laptop) == []


@pytest.mark.invariant("A rehearsal is isolated from this machine's job, and leaves nothing behind")
def test_a_sigkill_of_the_rehearsal_leaves_nothing_behind(laptop: Path) -> None:
    running = start(laptop, "--nodes", "2", "project/train.py", "deaf", "write:deaf-RANK:x", "sleep")
    eventually(
        lambda: len(list(laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/deaf-*"))) == 2, "the ranks"
    )
    running.kill()
    end(running)
    eventually(lambda: processes(laptop) == [], "all are gone")


def waiting_for_the_table(laptop: Path) -> list[int]:
    """The nodes that have begun to wait."""
    return [event["node"] for event in node_events(laptop, "phase-start") if event["phase"] == "rank table"]


def test_a_stop_while_the_table_is_awaited(laptop: Path) -> None:
    running = start(laptop, "--nodes", "2", "project/train.py", delay="600")
    eventually(lambda: waiting_for_the_table(laptop) == [0, 1], "the wait")
    running.send_signal(signal.SIGINT)
    assert end(running).code == 130
    assert processes(laptop) == []


def test_a_plan_that_cannot_be_made_ends_as_the_node_would(laptop: Path) -> None:
    assert rehearse(laptop, "--plan", "no-such-program").code == 127


def test_the_plan_of_every_node_for_programs(laptop: Path) -> None:
    arguments = ["--plan", "--json", *SHAPE, "project/train.py", "write:started:x"]
    nodes = json.loads(end(start(laptop, *arguments, errors=subprocess.DEVNULL)).output)["nodes"]
    assert [[worker["rank"] for worker in node["workers"]] for node in nodes] == [[0, 1], [2, 3]]
    assert not (laptop / "ma_boot-rehearsal").exists()


OF_RANKS = ["--fault", "kill rank=0", "--fault", "stop"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["missing.py"], 127, "missing.py: no such file"),
        (["--path-mapping", "project/mapping.py"], 78, "OBS_ACCESS_KEY_ID"),
        (["--conda-env", "typo"], 78, "--conda-env typo: no such environment"),
        ([*MAPPING, "--rehearsal-dir", "/proc/none"], 73, "cannot create the sandbox"),
        (["--input", "data_url=obs://bucket/data/"], 78, "--obs-root"),
        (["--obs-root", "project/train.py"], 73, "project/train.py: File exists"),
        (["--platform", "slurm"], 64, "--platform slurm: expected modelarts, volcano, mindcluster"),
        (["--fault", "kill"], 64, "rank= is missing"),
        (["--fault", "obs-503"], 64, "need --obs-root"),
        (["--append-args", "'"], 64, "--append-args"),
        (["--per-node", *OF_RANKS], 64, "expected ranks that ma_boot starts, found --per-node"),
        (["--rendezvous", "mpi", *OF_RANKS], 64, "ranks that ma_boot starts, found --rendezvous mpi"),
    ],
)
def test_a_mistake_is_one_clear_message(laptop: Path, options: list[str], code: int, message: str) -> None:
    ended = rehearse(laptop, *options, "project/train.py")
    assert ended.code == code, ended.output
    assert message in ended.output
    assert "Traceback" not in ended.output


def test_the_page_of_a_rehearsal_is_of_all_nodes(laptop: Path) -> None:
    words = [f"meet:{laptop}/here:4", "exit:7:3", "sleep"]
    shape = ["--nodes", "2", "--devices-per-node", "2"]
    ended = rehearse(laptop, *shape, *MAPPING, "project/train.py", *words)
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    assert f"[ma_boot] page: {page.relative_to(laptop)}" in ended.output.splitlines()
    text = page.read_text()
    assert "Rank 3 on node 1 failed first: it ended with exit code 7" in text
    assert [name in text for name in ("rank 0:", "rank 1:", "rank 2:", "rank 3:")] == [True] * 4
    nodes = list(laptop.glob("ma_boot-rehearsal/*/node-*/home/ma-user/modelarts/log/*-report.html"))
    assert len(nodes) == 2
    form = "/home/ma-user/modelarts/user-job-dir/project"
    command = f"exec ma_boot --path-mapping {form}/mapping.py {form}/train.py {' '.join(words)}"
    assert escape(command) in text.partition("Boot command for the job form")[2].partition("</pre>")[0]


def test_of_a_node_that_is_killed_the_page_has_the_last_words(laptop: Path) -> None:
    process = start(laptop, "--nodes", "2", "project/train.py", "print:up", "sleep")
    (killed,) = eventually(
        lambda: [start["pid"] for start in job_events(laptop, "start") if start["label"] == "node 1"],
        "node 1 is started",
    )
    (log,) = laptop.glob("ma_boot-rehearsal/*/log/*-worker-1.log")
    eventually(lambda: "[rank 1] up" in log.read_text(), "rank 1 is up, and its node said so")
    os.kill(killed, signal.SIGKILL)
    assert end(process).code == 137
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    text = page.read_text()
    assert "Node 1 failed first, with exit code 137." in text
    assert "Last output of node 1" in text
    assert "[rank 1] up" in text


def test_two_nodes_that_upload_one_key_are_told_so_and_both_end_well(laptop: Path, obs: MemoryObs) -> None:
    """Large enough for a multipart upload each; the content differs, so neither takes the other's object for its own."""
    output = "PATH_MAPPING_CONFIG = {'output': {'./checkpoints': 'obs://bucket/out'}}"
    (laptop / "project" / "mapping.py").write_text(output)
    (laptop / "project" / "train.py").write_text(
        "import os; os.makedirs('checkpoints', exist_ok=True); open('checkpoints/x', 'wb').write(os.urandom(70 << 20))"
    )
    more = {"OBS_ENDPOINT": obs.url, **CREDENTIALS}
    ended = end(
        start(laptop, "--nodes", "2", "--path-mapping", "project/mapping.py", "project/train.py", more=more)
    )
    assert ended.code == 0, ended.output
    assert ended.output.count("warning: all 2 nodes upload these outputs to the same URL") == 2
    assert "./checkpoints -> obs://bucket/out" in ended.output
    assert sum(method == "PUT" and "/bucket/out/x?" in target for method, target in obs.requests) == 10


def test_warnings_reach_the_terminal_without_verbose(laptop: Path) -> None:
    program = write(laptop, "os.makedirs('ckpt', exist_ok=True)", "open(f'ckpt/other-{rank}', 'w').close()")
    options = with_outputs(laptop, ckpt=CHECKPOINTS)
    ended = rehearse(laptop, *SHAPE[:4], *options, program, more={"MABOOT_VERBOSE": ""})
    warning = (
        r"\[node [01]\] \[ma_boot\] warning: checkpoints: the names of other-\d, other-\d in ckpt are none"
    )
    assert re.search(warning, ended.output), ended.output
