"""The supervisor with real processes: start, orphans, the cause of a failure, restarts, hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.node.observe.rank_stacks.rank_processes import RankProcess
from ma_boot.node.observe.rank_stacks.stack_tools import stacks_of
from ma_boot.processes.children import reap_orphans
from ma_boot.processes.cpu_meter import process_usages
from ma_boot.processes.orphan_guard import process_stat
from tests.functional.node import PROGRAMS, RANK, Node, alive, eventually, pids
from tests.requirement import unavailable


class TestStart:
    """Resources of each process."""

    def test_core_files_are_disabled(self, node: Node) -> None:
        running = node.start_by(["prlimit", f"--core={1 << 20}"], RANK, "print-limits")
        assert "[rank 0] 0\n" in running.end().output

    def test_cores_are_bound_before_the_program_runs(self, node: Node) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        half = len(allowed) // 2
        running = node.start("--bind-cores", "equal", RANK, "print-cores", f"ready:{node.root}/p", "await:go")
        pids(node.root, "p.*", 2)
        assert sorted(os.sched_getaffinity(running.process.pid)) == allowed
        (node.home / "go").write_text("")
        ended = running.end()
        assert f"[rank 0] {allowed[:half]}\n" in ended.output
        assert f"[rank 1] {allowed[half : 2 * half]}\n" in ended.output


class TestOrphans:
    """Processes that lose their parent, or move to a session of their own."""

    def test_ma_boot_adopts_and_reaps_orphans(self, node: Node) -> None:
        running = node.start(RANK, "orphans:20", "zombies")
        ended = running.end()
        assert f"[rank 0] orphan of {running.process.pid}\n" in ended.output
        assert "[rank 0] zombies: 0\n" in ended.output

    @pytest.mark.parametrize("adopt", [True, False], ids=["adopting", "control"])
    def test_only_a_subreaper_adopts_them(self, node: Node, adopt: bool) -> None:
        limits = '{"stop_timeout": 0.5}'  # without adopted processes no SIGCHLD wakes the supervisor
        supervised = [str(node.root), limits, "adopt" if adopt else "-", RANK, "orphans:1"]
        argv = [sys.executable, str(PROGRAMS / "supervisor.py"), *supervised]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

            def ended() -> bool:
                reap_orphans([process.pid])  # processes that it does not adopt are children of the test
                return process.poll() is not None

            eventually(ended, "the supervisor's end")
            output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        supervisor = re.search(r"supervisor (\d+)", output)
        assert supervisor is not None
        assert (f"orphan of {supervisor.group(1)}\n" in output) is adopt

    def test_as_pid_1(self, node: Node) -> None:
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        argv = [
            "unshare",
            *user,
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            sys.executable,
            "-m",
            "ma_boot",
        ]
        done = subprocess.run(
            [*argv, RANK, "orphans:20", "zombies", "ready:z", "await:z.0", "await:z.1", "exit:7:1", "sleep"],
            cwd=node.home, env=node.environ(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if "Operation not permitted" in done.stderr:
            unavailable("a PID namespace cannot be made here")
        assert done.returncode == 7, done.stdout
        assert "[rank 0] orphan of 1\n" in done.stdout
        assert "[rank 0] zombies: 0\n" in done.stdout

    @pytest.mark.parametrize("word", ["daemon", "stranger"], ids=["of the job", "without its environment"])
    def test_a_daemon_in_its_own_session_is_stopped_with_the_job(self, node: Node, word: str) -> None:
        ended = node.boot(RANK, f"{word}:{node.root}/pid")
        assert ended.code == 0, ended.output
        named = r"stopping processes that are left in the background: .+ \(pid \d+\), .+ \(pid \d+\)"
        assert re.search(named, ended.output)
        assert "kill" not in [event["kind"] for event in node.events()]
        assert not any(alive(pid) for pid in pids(node.root, "pid.*", 2))

    def test_no_such_daemon_survives_a_sigkill_of_ma_boot(self, node: Node) -> None:
        running = node.start(RANK, f"stranger:{node.root}/pid", "sleep")
        ranks = pids(node.root, "pid.*", 2)
        guard = guard_of(running.process.pid)
        before = switches(guard)
        eventually(lambda: switches(guard) >= before + 10, "the guard looks five times a second", seconds=10)
        running.process.kill()
        assert running.end().code == -signal.SIGKILL
        eventually(lambda: not any(alive(pid) for pid in ranks), "all are gone")

    @pytest.mark.parametrize("how", ["ma-pre-start.sh", "--source"])
    def test_setup_programs_do_not_survive_a_sigkill_of_ma_boot(self, node: Node, how: str) -> None:
        (node.home / "train.py").write_text("")
        script = node.home / ("ma-pre-start.sh" if how == "ma-pre-start.sh" else "sourced.sh")
        script.write_text(
            f"setsid sleep 600 & echo $! > {node.root}/pid.0; echo $$ > {node.root}/pid.1; sleep 600\n"
        )
        running = node.start(*(["--source", str(script)] if how == "--source" else []), "train.py")
        ranks = pids(node.root, "pid.*", 2)
        running.process.kill()
        assert running.end().code == -signal.SIGKILL
        eventually(lambda: not any(alive(pid) for pid in ranks), "all are gone")

    @pytest.mark.parametrize("how", ["ma-pre-start.sh", "--source"])
    @pytest.mark.parametrize("end", ["training", "failure before it", "SIGTERM", "SIGKILL"])
    def test_daemons_of_the_setup_continue_until_the_job_ends(self, node: Node, how: str, end: str) -> None:
        script = daemon_script(node, how)
        source = ["--source", str(script)] if how == "--source" else []
        (node.home / "train.py").write_text(
            f"import os, time; os.kill(int(open('{node.root}/pid.0').read()), 0)\n"
            f"open('{node.root}/ready', 'w'); time.sleep({0 if end == 'training' else 600})\n"
        )
        if end == "failure before it":
            node.table.write_text("{}")
        running = node.start(*source, "--rank-table-timeout", "2", "train.py")
        if end.startswith("SIG"):
            eventually((node.root / "ready").exists, "the training")
            running.signal(signal.Signals[end])
        ended = running.end()
        assert ended.code == {"training": 0, "failure before it": 75, "SIGTERM": 143, "SIGKILL": -9}[end], (
            ended.output
        )
        (daemon,) = pids(node.root, "pid.*", 1)
        eventually(lambda: not alive(daemon), "the daemon has ended")
        if end != "SIGKILL":
            assert re.search(rf"stopping what the setup left running: .*\b{daemon}\b", ended.output)
            assert (node.root / "stopped").exists()

    def test_dead_guard_does_not_affect_the_job(self, node: Node) -> None:
        node.complete_table()
        running = node.start(RANK, f"ready:{node.root}/pid", "await:go", "orphans:20", "zombies")
        pids(node.root, "pid.*", 2)
        os.kill(guard_of(running.process.pid), signal.SIGKILL)
        (node.home / "go").write_text("")
        ended = running.end()
        assert ended.code == 0, ended.output
        assert "[rank 0] zombies: 0\n" in ended.output

    @pytest.mark.invariant("No process survives the job, not even after a SIGKILL of ma_boot")
    @pytest.mark.parametrize("word", ["ready", "grandchild", "daemon"])
    def test_no_process_survives_a_sigkill_of_ma_boot(self, node: Node, word: str) -> None:
        running = node.start(RANK, "deaf", f"{word}:{node.root}/pid", "sleep")
        ranks = pids(node.root, "pid.*", 2)
        running.process.kill()
        assert running.end().code == -signal.SIGKILL
        eventually(lambda: not any(alive(pid) for pid in ranks), "all are gone")

    def test_a_process_that_survives_sigkill_is_reported(self, node: Node) -> None:
        (node.root / "unanswered").mkdir()
        script = node.root / "train.py"
        script.write_text(
            "import os, time\n"
            f"open('{node.root}/pid.' + os.environ['RANK_ID'], 'w').write(str(os.getpid()))\n"
            f"os.environ['RANK_ID'] == '0' and os.stat('{node.root}/unanswered/x')\n"
            "time.sleep(600)\n"
        )
        own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
        running = node.start_by(
            [*own, sys.executable, str(PROGRAMS / "unanswered_files.py"), str(node.root / "unanswered")],
            *("--stop-timeout", "0.1", str(script)),
        )
        eventually(lambda: (node.root / "pid.0").exists() or running.process.poll(), "the start, or its end")
        if running.process.poll() is not None:
            unavailable(f"no FUSE in a mount namespace of its own: {running.end().output}")
        stuck, _ = pids(node.root, "pid.*", 2)
        eventually(lambda: (process_stat(stuck) or "?")[0] in "SD", "rank 0 waits for its file")
        running.signal()
        ended = running.end()
        assert ended.code == 143, ended.output
        assert "[ma_boot] warning: SIGKILL did not end rank 0\n" in ended.output
        assert [event["left"] for event in node.events() if event["kind"] == "unkillable"] == [["rank 0"]]
        eventually(lambda: not alive(stuck), "it ends when it can")

    def test_leftovers_of_an_earlier_start_are_stopped_first(self, node: Node) -> None:
        running = node.start(RANK, f"ready:{node.root}/pid", "sleep")
        left = pids(node.root, "pid.*", 2)
        os.kill(guard_of(running.process.pid), signal.SIGKILL)
        running.process.kill()
        assert running.end().code == -signal.SIGKILL
        assert all(alive(pid) for pid in left)
        node.variables["MA_CURRENT_INSTANCE_NAME"] = f"another-{node.instance}"
        assert "an earlier start" not in node.boot(RANK).output
        assert all(alive(pid) for pid in left), "those of another container on this machine are not ours"
        del node.variables["MA_CURRENT_INSTANCE_NAME"]
        ended = node.boot(RANK, "print:again")
        assert ended.code == 0
        assert "stopping 2 processes that an earlier start left" in ended.output
        assert not any(alive(pid) for pid in left)


class TestWatch:
    """The supervisor sleeps while nothing happens."""

    def test_waiting_uses_no_cpu(self, node: Node) -> None:
        running = node.start(RANK, "print:hello", f"ready:{node.root}/p", "await:go")
        pids(node.root, "p.*", 2)
        before = switches(running.process.pid)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(timeout=1)
        assert switches(running.process.pid) - before < 20
        (node.home / "go").write_text("")
        assert running.end().code == 0

    def test_stopping_uses_no_cpu_while_hangs_are_watched_for(self, node: Node) -> None:
        options = ("--hang-timeout", "0.4", "--stop-timeout", "600")
        running = node.start(*options, RANK, "deaf", f"ready:{node.root}/p", "sleep")
        pids(node.root, "p.*", 2)
        running.signal()
        eventually(lambda: any(event["kind"] == "stop" for event in node.events()), "the stop")
        before = process_usages()[running.process.pid].cpu
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(timeout=1)
        assert process_usages()[running.process.pid].cpu - before < 0.3
        running.signal()
        assert running.end().code == 143


class TestVerdict:
    """Root cause and its explanation."""

    def test_a_code_of_a_launcher_is_no_signal(self, node: Node) -> None:
        """A launcher's code is its own: the process that died is no child of ma_boot."""
        node.devices = 1
        node.complete_table()
        (node.home / "launcher.sh").write_text("exit 132\n")
        ended = node.boot("launcher.sh")
        text = "a shell or launcher uses this code for signal 4, SIGILL"
        assert ended.code == 132
        assert (
            f"ended with exit code 132 after 0.0 s (exit code of the training process): {text}"
            in ended.output
        )
        failure = json.loads((node.log_dir / "modelarts-job-test-node-0-failure.json").read_text())
        page = (node.log_dir / "modelarts-job-test-node-0-report.html").read_text()
        (end,) = [event for event in node.events() if event["kind"] == "end"]
        assert text in failure["summary"]
        assert text in end["cause"]
        assert text in page
        for text in (ended.output, json.dumps(failure), json.dumps(end), page):
            assert "llegal instruction" not in text

    def test_a_sigkill_from_elsewhere_is_not_called_out_of_memory(self, node: Node) -> None:
        ended = node.boot(RANK, "kill:0", "sleep")
        assert "the kernel counted no OOM kill" in ended.output.splitlines()[-1]

    def test_out_of_memory_is_known_from_the_kernels_counters(self, node: Node) -> None:
        group = memory_group(64 << 20)
        running = node.start(RANK, "await:go", "eat:1", "sleep")
        (group / "cgroup.procs").write_text(str(running.process.pid))
        eventually(lambda: node.in_phase("run"), "the run")
        for pid in children(running.process.pid):
            (group / "cgroup.procs").write_text(str(pid))
        (node.home / "go").write_text("")
        ended = running.end()
        group.rmdir()
        assert ended.code == 137, ended.output
        assert "out of memory: the kernel killed" in ended.output.splitlines()[-1]

    def test_the_report_has_the_traceback_of_the_cause(self, node: Node) -> None:
        ended = node.boot(RANK, "fail:1:retCode=0x91", "sleep")
        report = ended.output[ended.output.index("the cause: rank 1") :]
        assert f"device 1, host {node.instance}, pid" in report
        assert "  | Traceback (most recent call last):" in report
        assert "  | ValueError: retCode=0x91" in report
        assert "hint: retCode=0x91: MindSpore could not execute its graph" in report
        assert len(report.splitlines()) < 30

    def test_a_failure_file_of_the_training_is_kept(self, node: Node) -> None:
        script = node.home / "train.py"
        script.write_text(
            "import os\nown = f'{os.getpid()}'\nopen(own, 'w').write('mine')\n"
            "os.rename(own, os.environ['MABOOT_FAILURE_FILE']); exit(3)"  # whole, whichever rank is the first
        )
        ended = node.boot("train.py")
        assert ended.code == 3
        assert node.logs()["modelarts-job-test-node-0-failure.json"] == b"mine"
        assert json.loads(node.logs()["modelarts-job-test-node-0-failure-ma_boot.json"])["exit_code"] == 3

    def test_a_failure_file_of_an_earlier_start_is_renamed(self, node: Node) -> None:
        node.boot(RANK, "exit:3:0", "sleep")
        assert node.boot(RANK).code == 0
        assert "modelarts-job-test-node-0-failure.1.json" in node.logs()
        assert "modelarts-job-test-node-0-failure.json" not in node.logs()

    def test_a_restart_of_the_container_is_shown(self, node: Node) -> None:
        node.variables.update(MA_PROC_START_CNT="3", MA_SCHEDULE_CNT="2")
        ended = node.boot(RANK)
        assert "start 3 in this container (MA_PROC_START_CNT), scheduled 2 times" in ended.output


class TestRestarts:
    """`--max-restarts`: all processes again, if that may help."""

    def test_a_second_attempt_may_succeed(self, node: Node) -> None:
        (node.root / "x.1").write_text("rank 1 does not fail")
        node.variables["MABOOT_START_SECONDS"] = "0"
        ended = node.boot("--max-restarts", "2", RANK, "print:attempt", f"once:{node.root}/x:9")
        assert ended.code == 0, ended.output
        assert "starting attempt 2 of 3" in ended.output
        log = "modelarts-job-test-proc-rank-0-device-0"
        assert node.logs()[f"{log}.txt"] == node.logs()[f"{log}.1.txt"] == b"attempt\n"
        assert [event["attempt"] for event in node.events() if event["kind"] == "restart"] == [2]

    def test_the_last_failure_counts(self, node: Node) -> None:
        node.variables["MABOOT_START_SECONDS"] = "0"
        ended = node.boot("--max-restarts", "1", RANK, "exit:9:1", "sleep")
        assert ended.code == 9
        assert ended.output.count("stopping rank 0") == 2

    @pytest.mark.parametrize(
        ("start_seconds", "words", "why"),
        [
            ("", ["exit:9:1", "sleep"], "it failed within its first 10 s (MABOOT_START_SECONDS)"),
            ("0", ["exit:2:1", "sleep"], "wrong use of the command"),
            ("0", ["exit:127:1", "sleep"], "a command that does not exist"),
        ],
    )
    def test_no_restart_for_failures_that_it_cannot_fix(
        self, node: Node, start_seconds: str, words: list[str], why: str
    ) -> None:
        node.variables["MABOOT_START_SECONDS"] = start_seconds
        ended = node.boot("--max-restarts", "2", RANK, *words)
        assert ended.code != 0
        assert why in ended.output
        assert "starting attempt" not in ended.output

    def test_no_restart_after_a_stop(self, node: Node) -> None:
        node.variables["MABOOT_START_SECONDS"] = "0"
        running = node.start("--max-restarts", "2", RANK, f"ready:{node.root}/p", "sleep")
        pids(node.root, "p.*", 2)
        running.signal()
        ended = running.end()
        assert ended.code == 143
        assert "starting attempt" not in ended.output


class TestHangs:
    """`--hang-timeout`: no output and no CPU time."""

    def test_a_hang_is_reported_once_with_stacks_and_the_run_goes_on(self, node: Node) -> None:
        running = node.start("--hang-timeout", "1", RANK, "await:go")
        eventually(lambda: any(event["kind"] == "hang" for event in node.events()), "the report")
        (node.home / "go").write_text("")
        ended = running.end()
        assert ended.code == 0
        assert ended.output.count("no output and no CPU time for 1 s") <= 2
        assert "wait_for" in ended.output, "py-spy shows the function"

    def test_the_rank_that_keeps_the_others_waiting_is_named(self, node: Node) -> None:
        node.devices = 4
        (node.home / "train.py").write_text(
            "import os, time\ndef all_reduce(): time.sleep(600)\ndef next_batch(): time.sleep(600)\n"
            "def step():\n  if os.environ['RANK_ID'] == '2': next_batch()\n  all_reduce()\nstep()\n"
        )
        node.complete_table()
        ended = node.boot("--hang-timeout", "1", "--hang-action", "stop", "train.py")
        assert ended.code == 124, ended.output
        events = [event for event in node.events() if event["kind"] in ("stacks", "stop")]
        assert [event["kind"] for event in events] == ["stacks", "stop"], (
            "stacks come before anything is ended"
        )
        assert [fold["ranks"] for fold in events[0]["folded"]] == [[2], [0, 1, 3]]
        suspect = events[0]["suspect"]
        assert (suspect["rank"], suspect["node"]) == (2, 0)
        assert "is loading data in next_batch (train.py:3), called by step" in suspect["why"] or (
            "is loading data in next_batch (train.py:3), while ranks 0-1, 3 are in all_reduce"
            in suspect["why"]
        )
        assert "suspected: node 0, rank 2: it is" in ended.output

    def test_without_py_spy_faulthandler_prints_the_stacks(self, tmp_path: Path) -> None:
        argv = [sys.executable, RANK, "dump-on-usr1", f"ready:{tmp_path}/pid", "sleep"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, env={}) as process:
            eventually(lambda: (tmp_path / "pid.-").exists(), "it is ready")
            assert "the stacks are in its own output" in stacks_of([RankProcess(process.pid, "")])[0]
            assert process.stderr is not None
            assert b"most recent call first" in process.stderr.readline() + process.stderr.readline()
            process.kill()


def daemon_script(node: Node, how: str) -> Path:
    """A script that starts a daemon in a session of its own, which notes SIGTERM."""
    script = node.home / ("ma-pre-start.sh" if how == "ma-pre-start.sh" else "sourced.sh")
    daemon = node.root / "daemon.sh"
    daemon.write_text(
        f"trap 'touch {node.root}/stopped; exit' TERM\necho $$ > {node.root}/pid.0\nwhile :; do sleep 0.05; done\n"
    )
    script.write_text(f"setsid bash {daemon} & while [ ! -s {node.root}/pid.0 ]; do sleep 0.05; done\n")
    return script


def switches(pid: int) -> int:
    """The voluntary context switches of the process so far: one for each wait."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(map(int, re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)))


def children(pid: int) -> list[int]:
    return [child for child, usage in process_usages().items() if usage.parent == pid]


def guard_of(pid: int) -> int:
    """The guard of a ma_boot."""
    (guard,) = [child for child in children(pid) if b"orphan_guard.py" in command(child)]
    return guard


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def memory_group(size: int) -> Path:
    """A control group with a memory limit of `size` bytes."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            group = Path("/sys/fs/cgroup/memory", path.lstrip("/"), f"ma_boot-test-{os.getpid()}")
            limit = "memory.limit_in_bytes"
        elif controllers == "" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            group = Path("/sys/fs/cgroup", f"ma_boot-test-{os.getpid()}")
            limit = "memory.max"
        else:
            continue
        try:
            group.mkdir()
            (group / limit).write_text(str(size))
        except OSError as error:
            unavailable(f"no control group can be made here: {error}")
        return group
    return unavailable("this machine has no memory control groups")
