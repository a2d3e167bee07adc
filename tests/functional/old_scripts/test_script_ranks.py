"""Ranks that a start script starts: their failures, ends and numbers, as for ranks that ma_boot starts."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.node import Node, alive, events_in, eventually
from tests.functional.old_scripts.start_scripts import START_SCRIPTS, Machine

# A loop as in the guides: each rank in the background, with its output in a file of its own or in the script's.
LOOP = """
for ((i = 0; i < 2; i++)); do
    export DEVICE_ID=$i RANK_ID=$i RANK_SIZE=2
    python3 rank.py $i {log} &
done
"""
TO_FILES = LOOP.format(log='> "train$i.log" 2>&1')
TO_PIPE = LOOP.format(log="")
RANK = """
import os, sys, time
rank = int(sys.argv[1])
open(f"pid.{rank}.part", "w").write(str(os.getpid()))
os.rename(f"pid.{rank}.part", f"pid.{rank}")
"""
RAISES = RANK + 'time.sleep(1)\nif rank == 1: raise ValueError("bad shard")\ntime.sleep(600)\n'
GRACE = {"MABOOT_SCRIPT_RANK_GRACE": "2"}


def write(node: Node, script: str, rank: str) -> None:
    """Writes `run.sh` and `rank.py` to the node's home."""
    (node.home / "run.sh").write_text(f"#!/bin/bash\n{script}")
    (node.home / "rank.py").write_text(rank)
    node.variables.update(GRACE)


def pid_of(node: Node, rank: int) -> int:
    """The pid of a rank, once it runs."""
    file = node.home / f"pid.{rank}"
    eventually(file.exists, f"rank {rank} runs")
    return int(file.read_text())


@pytest.mark.invariant("A rank that a start script starts and that fails stops the job, with its own cause")
@pytest.mark.parametrize(
    "script", [f"{TO_FILES}wait\n", f"{TO_PIPE}wait\n", TO_FILES], ids=["files", "pipe", "left"]
)
def test_failed_rank_stops_the_others_after_the_grace_period(node: Node, script: str) -> None:
    write(node, script, RAISES)
    ended = node.boot("bash", "run.sh")
    assert ended.code == 1, ended.output
    last = ended.output.splitlines()[-1]
    assert re.fullmatch(
        r"\[ma_boot\] exit code 1: rank 1 ended with .*: ValueError: bad shard, at \S*rank.py:\d+", last
    )
    assert re.search(
        r"rank 1 \(pid \d+\) of the command has failed, and other ranks have run on", ended.output
    ) or (
        script == TO_FILES  # the failed child of an ended script needs no grace period
    )
    assert not alive(pid_of(node, 0))
    failure = json.loads((node.log_dir / "modelarts-job-test-node-0-failure.json").read_text())
    assert (failure["first_failure"]["rank"], failure["first_failure"]["exception"]) == (
        1,
        "ValueError: bad shard",
    )
    if "train$i.log" in script:
        assert failure["first_failure"]["log_file"] == str(node.home / "train1.log")


def test_rank_is_on_the_page_with_its_log(node: Node) -> None:
    write(node, f"{TO_FILES}wait\n", RAISES)
    node.boot("bash", "run.sh")
    page = (node.log_dir / "modelarts-job-test-node-0-report.html").read_text()
    assert "rank 1" in page
    assert "ValueError: bad shard" in page
    started = [event for event in node.events() if event["kind"] == "start" and event["rank"] is not None]
    logs = {(event["rank"], event["log_file"]) for event in started}
    assert logs == {(rank, str(node.home / f"train{rank}.log")) for rank in (0, 1)}
    assert {event["rank"] for event in node.events() if event["kind"] == "first-output"} == {1}


def test_silent_end_of_a_rank_is_reported_and_stops_nothing(node: Node) -> None:
    """SIGKILL and a good end look the same from outside."""
    write(node, f"{TO_FILES}wait\n", RANK + "while not os.path.exists('end'): time.sleep(0.05)\n")
    running = node.start("bash", "run.sh")
    eventually(
        lambda: [e for e in node.events() if e["kind"] == "start" and e["rank"] == 1], "the rank is known"
    )
    os.kill(pid_of(node, 1), signal.SIGKILL)
    running.until("rank 1 (pid")
    assert alive(pid_of(node, 0))
    (node.home / "end").touch()
    ended = running.end()
    assert "has ended while other ranks of the command still run" in ended.output


@pytest.mark.parametrize("killed", [False, True], ids=["hangs", "killed"])
def test_rank_for_which_the_others_wait_is_suspected(node: Node, killed: bool) -> None:
    """`killed`: the kernel of SIGKILL leaves no trace, but the others make no progress without the rank."""
    wait = "def all_reduce(): time.sleep(600)\ndef next_batch(): time.sleep(600)\n"
    write(
        node,
        f"{TO_FILES.replace('i < 2', 'i < 3')}wait\n",
        f"{RANK}{wait}next_batch() if rank == 1 else all_reduce()\n",
    )
    node.variables["MABOOT_SCRIPT_RANKS"] = "report"
    running = node.start("--hang-timeout", "4", "--hang-action", "stop", "bash", "run.sh")
    if killed:
        eventually(
            lambda: [e for e in node.events() if e["kind"] == "start" and e["rank"] == 1], "it is known"
        )
        os.kill(pid_of(node, 1), signal.SIGKILL)
    ended = running.end()
    assert ended.code == 124, ended.output
    why = "has ended, and ranks 0, 2 run on" if killed else "is loading data in next_batch"
    assert f"suspected: node 0, rank 1: it {why}" in ended.output


def test_script_that_hides_the_failure_of_its_last_rank_ends_with_its_own_code(node: Node) -> None:
    write(node, f"{TO_FILES}wait\n", RANK + 'time.sleep(1)\nraise ValueError("bad shard")\n')
    ended = node.boot("bash", "run.sh")
    assert ended.code == 0, ended.output


# The launcher waits for rank 0 first, so rank 1 stays a zombie, whose code is read; it ignores all codes.
HIDES_CODES = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "-c", code], env={{**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}})
    for rank, code in enumerate(["import time; time.sleep(4)", "import os, time; time.sleep(1); {}"])
]
for rank in ranks: rank.wait()
"""


@pytest.mark.parametrize(
    ("end", "is_doubtful"),
    [
        ("os._exit(3)", True),
        ("os.abort()", True),
        ("os._exit(0)", False),
        ("os.kill(os.getpid(), 15)", False),
    ],
    ids=["code", "abort", "success", "stopped by the script"],
)
def test_code_of_a_silent_rank_that_its_command_hides_is_doubtful(
    node: Node, end: str, is_doubtful: bool
) -> None:
    (node.home / "launch.py").write_text(HIDES_CODES.format(end))
    ended = node.boot("--per-node", "launch.py")
    assert ended.code == 0, ended.output
    last = ended.output.splitlines()[-1]
    code = 134 if "abort" in end else 3
    doubt = f"exit code 0, but a process of the training failed: rank 1 ended with exit code {code}. "
    assert (doubt in last) is is_doubtful, ended.output


WAITS_IN_ORDER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)})
    for rank, code in enumerate(["import time; time.sleep(600)", "import sys, time; time.sleep(1); sys.exit(3)"])
]
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_exit_code_that_nothing_has_read_yet_is_known(node: Node) -> None:
    """The launcher waits for rank 0, so rank 1 stays a zombie: its end is a failure without any output."""
    (node.home / "launch.py").write_text(WAITS_IN_ORDER)
    node.variables.update(GRACE)
    ended = node.boot("--per-node", "launch.py")
    assert ended.code == 3, ended.output
    assert "rank 1 ended with exit code 3" in ended.output.splitlines()[-1]


def test_rank_that_fails_before_its_script_ends_is_a_failure(node: Node) -> None:
    """`exec` leaves no shell that would reap it, so ma_boot adopts it with its exit code."""
    script = "RANK_ID=0 DEVICE_ID=0 sh -c 'exit 7' & RANK_ID=1 DEVICE_ID=1 sleep 3 & exec sleep 0.5\n"
    (node.home / "run.sh").write_text(script)
    ended = node.boot("--per-node", "sh", "run.sh")
    assert ended.code == 7, ended.output


@pytest.mark.parametrize("action", ["report", "off"])
def test_option_lets_the_others_run(node: Node, action: str) -> None:
    rank = RAISES.replace("time.sleep(600)", "\nwhile not os.path.exists('end'): time.sleep(0.05)")
    write(node, f"{TO_PIPE}wait\n", rank)
    node.variables["MABOOT_SCRIPT_RANKS"] = action
    running = node.start("bash", "run.sh")
    if action == "report":
        running.until("rank 1 (pid")
    else:
        running.until("ValueError: bad shard")
    (node.home / "end").touch()
    ended = running.end()
    assert ended.code == 0, ended.output
    assert ("has failed, and other ranks have run on" in ended.output) is (action == "report")


def test_cause_is_in_the_file_of_a_rank_and_not_in_the_scripts_warnings(node: Node) -> None:
    script = (
        'echo "ulimit: max user processes: cannot modify limit: Operation not permitted" >&2\n' + TO_FILES
    )
    write(node, script, RANK + 'time.sleep(1)\nif rank == 1: raise ValueError("vocab size differs")\n')
    ended = node.boot("bash", "run.sh")
    assert ended.code == 1, ended.output
    assert "ulimit" not in ended.output.splitlines()[-1]
    assert (
        "(exit code of the training process): ValueError: vocab size differs" in ended.output.splitlines()[-1]
    )


# Starts two ranks as torchrun does: if one fails, it stops the other, and starts both again.
LAUNCHER = """
import os, signal, subprocess, sys, time
for attempt in range(2):
    ranks = [
        subprocess.Popen(
            [sys.executable, "rank.py", str(rank)],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.1)
    if not any(rank.poll() for rank in ranks):
        sys.exit(max(rank.wait() for rank in ranks))
    open("second", "w").close()
    for rank in ranks:
        rank.terminate()
        rank.wait()
"""

# Scripts without a fault, though ranks end early, run twice or with other numbers.
HEALTHY = {
    "ranks of unlike length": (f"{TO_PIPE}wait\n", "time.sleep(1 + 4 * rank)"),
    "two trainings in a row": (f"{TO_PIPE}wait\n{TO_PIPE}wait\n", "time.sleep(1.5)"),
    "an evaluation by rank 0": (f"{TO_PIPE}wait\nRANK_ID=0 python3 rank.py 0\n", "time.sleep(1.5)"),
    "wait -n": (f"{TO_PIPE}wait -n; wait\n", "time.sleep(1 + 3 * rank)"),
    "a restart in the script": (
        TO_PIPE.replace("python3 rank.py $i", "(python3 rank.py $i || python3 rank.py $i)") + "wait\n",
        "time.sleep(0.7)\nif rank == 1 and not os.path.exists('second'):\n"
        "    open('second', 'w').close()\n    raise ValueError('first try')\ntime.sleep(4)",
    ),
    "a handled exception": (
        f"{TO_FILES}wait\n",
        "import traceback\ntry: int('x')\nexcept ValueError: traceback.print_exc()\n"
        "for step in range(60): print('step', step, flush=True)\ntime.sleep(1 + 4 * rank)",
    ),
    "data loaders": (
        f"{TO_PIPE}wait\n",
        "import subprocess\nloader = subprocess.Popen(['sleep', '1'])\nloader.wait()\ntime.sleep(3)",
    ),
    "an engine with ranks of its own": (
        f"{TO_PIPE}wait\n",
        "import subprocess\nenviron = {**os.environ, 'RANK_ID': '0'}\n"
        "subprocess.run(['sleep', '4'], env=environ, check=True)",
    ),
    "ranks that end at once": (f"{TO_PIPE}wait\n", "pass"),
    "a launcher that starts all ranks again": ("python3 launcher.py\n", "time.sleep(0.5)\n"
        "if rank == 1 and not os.path.exists('second'): raise ValueError('first try')\ntime.sleep(3)"),
    "a launcher with the number of the node in RANK": ("RANK=0 WORLD_SIZE=1 python3 launcher.py\n", "time.sleep(3)"),
    "a pipe to tee": (TO_PIPE.replace(" &", ' | tee "tee$i.log" &') + "wait\n", "time.sleep(1 + 3 * rank)"),
    "sessions of their own": (f"{TO_PIPE.replace('python3', 'setsid nohup python3')}wait\n", "time.sleep(3)"),
    "directories of their own": (
        TO_PIPE.replace("python3 rank.py $i", '(mkdir d$i; cd d$i; exec python3 ../rank.py $i > log)') + "wait\n",
        "time.sleep(1 + 3 * rank)",
    ),
    "xargs": ("printf '0\\n1\\n' | xargs -P 2 -I @ env RANK_ID=@ DEVICE_ID=@ python3 rank.py @\n", "time.sleep(2)"),
    "an evaluation beside the ranks": (
        f"{TO_PIPE}RANK_ID=0 DEVICE_ID=0 RANK_SIZE=1 python3 -c 'import time; time.sleep(1)'\nwait\n", "time.sleep(4)",
    ),
    "a step with one rank before the training": (
        f"RANK_ID=0 DEVICE_ID=0 RANK_SIZE=1 python3 -c 'import time; time.sleep(1)'\n{TO_PIPE}wait\n", "time.sleep(2)",
    ),
    "a handler of SIGTERM that the script uses": (
        f"{TO_PIPE}sleep 2; kill $!; wait\n",
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(0))\ntime.sleep(2 if rank == 0 else 600)",
    ),
    "an exception at the end of the interpreter": (
        f"{TO_FILES}wait\n",
        "class Late:\n    def __del__(self): raise ValueError('ignored')\nlate = Late()\ntime.sleep(1 + 4 * rank)",
    ),
    "a monitor": (f"(while true; do date >> smi.log; sleep 0.2; done) & monitor=$!\n{TO_PIPE}"
                  "wait $! ; sleep 1; kill $monitor\n", "time.sleep(3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_script_is_not_stopped(node: Node, name: str) -> None:
    script, rank = HEALTHY[name]
    write(node, script, RANK + rank + "\n")
    (node.home / "launcher.py").write_text(LAUNCHER)
    ended = node.boot("--per-node", "--rendezvous", "rank-table", "bash", "run.sh")
    assert ended.code == 0, ended.output
    assert "has failed" not in ended.output
    assert "the others wait" not in ended.output


def rehearse(place: Path, *arguments: str, path: str = os.environ["PATH"]) -> tuple[int, str]:
    """Rehearses a job on two nodes with two devices each."""
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", "--local", "-v", "--nodes", "2", "--devices-per-node", "2",
         "--workdir", "code", *arguments],
        cwd=place, env={**os.environ, **GRACE, "PATH": path}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


NUMBERED = """#!/bin/bash
cd "$(dirname "$0")"
for ((i = $1; i < ${{2:-$(($1 + 2))}}; i++)); do
    export DEVICE_ID=$((i % 2)) RANK_ID=$i
    {size}
    python3 -c "import time; time.sleep({seconds})" &
done
wait
"""


@pytest.mark.invariant("Ranks with wrong numbers end the job with 78: each node alone, twice, or missing")
@pytest.mark.parametrize(
    ("size", "first", "last", "seconds", "error"),
    [
        ("", "$RANK_START", "2", 3, "ranks 2-3 of 4 ranks were not started"),
        ("export RANK_SIZE=2", "0", "2", 3, "each node trains a job of its own"),
        ("", "0", "2", 60, "rank 0 runs twice, on nodes 0, 1"),
    ],
    ids=["missing", "alone", "twice"],
)
def test_wrong_numbers_end_the_job(
    tmp_path: Path, size: str, first: str, last: str, seconds: int, error: str
) -> None:
    (tmp_path / "run.sh").write_text(NUMBERED.format(size=size, seconds=seconds))
    code, output = rehearse(tmp_path, "bash", "run.sh", first, last)
    assert code == 78, output
    assert error in output.splitlines()[-1]


def test_right_numbers_on_two_nodes_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(NUMBERED.format(size="", seconds=3))
    code, output = rehearse(tmp_path, "bash", "run.sh", "$RANK_START")
    assert code == 0, output


def test_failure_of_a_script_rank_is_the_cause_of_both_nodes(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(
        "import os, time\ntime.sleep(1)\n"
        "if os.environ['RANK_ID'] == '3': raise ValueError('bad shard')\ntime.sleep(600)\n"
    )
    script = NUMBERED.format(size="", seconds=0)
    (tmp_path / "run.sh").write_text(
        script.replace('python3 -c "import time; time.sleep(0)"', "python3 rank.py")
    )
    code, output = rehearse(tmp_path, "bash", "run.sh", "$RANK_START")
    assert code == 1, output
    assert "node 1, rank 3: ValueError: bad shard" in output.splitlines()[-1]
    files = sorted(
        (tmp_path / "ma_boot-rehearsal").glob("*/node-*/home/ma-user/modelarts/log/*-events.jsonl")
    )
    causes = [[e["cause"]["rank"] for e in events_in(file) if e["kind"] == "job cause"] for file in files]
    assert causes == [[3], [3]]


# Stands in for Ray's command: the head and each worker have a daemon, which `--block` waits for.
RAY = """#!/bin/bash
setsid bash -c 'while [ ! -e {place}/stop ]; do sleep 0.1; done' raylet > /dev/null 2>&1 &
[[ "$*" != *--block* ]] || wait
"""
RAY_JOB = """#!/bin/bash
cd "$(dirname "$0")"
if [ "$VC_TASK_INDEX" = 0 ]; then
    ray start --head
    sleep 3
    exit {code}
fi
ray start --address=head {block}
"""


@pytest.mark.parametrize("block", ["--block", ""])
@pytest.mark.parametrize("code", [0, 3])
def test_job_of_ray_ends_with_the_command_of_node_0(tmp_path: Path, code: int, block: str) -> None:
    (tmp_path / "bin").mkdir()
    ray = tmp_path / "bin" / "ray"
    ray.write_text(RAY.format(place=tmp_path))
    ray.chmod(0o755)
    (tmp_path / "run.sh").write_text(RAY_JOB.format(code=code, block=block))
    ended, output = rehearse(tmp_path, "bash", "run.sh", path=f"{ray.parent}:{os.environ['PATH']}")
    (tmp_path / "stop").touch()
    assert ended == code, output
    if code == 0:
        assert "[node 1] [ma_boot] exit code 0: success" in output
    assert "node 0 has ended with" in output or not block


def test_wait_for_a_command_after_the_end_of_node_0_is_reported(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text('#!/bin/bash\n[ "$VC_TASK_INDEX" = 0 ] || sleep 14\n')
    code, output = rehearse(tmp_path, "--per-node", "bash", "run.sh")
    assert code == 0, output
    assert output.count("node 0 has ended with 0; still waiting for the command of this node to end") == 1


# The scripts of the guides as they stand: their directory in the project, and their arguments.
GUIDES = {
    "run.sh": (".", "/path/dataset", "2"),
    "run_cluster.sh": (".", "/path/dataset", "{table}", "8", "0"),
    "run_distributed_ascend.sh": (".", "{table}", "2", "0", "0"),
    "run_distribution_ascend.sh": ("scripts", "2", "0", "{table}", "{root}/config.yaml"),
}
FAILING = """
import os, time
def train():
    print("step 1", flush=True)
    time.sleep(1.5 if os.environ["RANK_ID"] == "1" else 600)
    raise ValueError("bad shard")
def test_train(): train()
if __name__ == "__main__": train()
"""


@pytest.mark.parametrize("name", GUIDES)
def test_failed_rank_of_a_script_of_the_guides_is_the_cause(tmp_path: Path, name: str) -> None:
    """Half of them start the ranks by pytest, which prints no traceback of Python."""
    devices = 8 if name == "run_cluster.sh" else 2
    machine = Machine(tmp_path / "machine", (devices,))
    for script in ("train.py", "resnet50_distributed_training.py"):
        (machine.root / script).write_text(FAILING)
    node = Node(tmp_path, devices=devices)
    node.complete_table()
    node.variables.update({**GRACE, "MABOOT_PYTHON": sys.executable, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    directory, *arguments = GUIDES[name]
    target = machine.root / directory / name
    target.parent.mkdir(exist_ok=True)
    target.write_text((START_SCRIPTS["own"] / name).read_text())
    words = [word.format(root=machine.root, table=machine.table) for word in arguments]
    line = shlex.join(
        [sys.executable, "-m", "ma_boot", "bash", str(target.relative_to(machine.root)), *words]
    )
    done = subprocess.run(
        ["bash", "-c", line], cwd=machine.root, env=node.environ(), capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    last = done.stdout.splitlines()[-1]
    assert re.match(
        r"\[ma_boot\] exit code 1: rank 1 ended with .*: ValueError: bad shard, at \S+\.py:6", last
    )
