"""`ma_boot` as the platform starts it: real processes, a rank table on disk, a directory in place of OBS."""

from __future__ import annotations

import json
import venv
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node, alive, eventually, pids


def test_a_job_ends_with_0_and_leaves_a_log_for_each_rank(node: Node) -> None:
    ended = node.boot(RANK, "print:hello")
    assert ended.code == 0, ended.output
    assert "[rank 0] hello\n" in ended.output
    assert "[rank 1] hello\n" in ended.output
    assert node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"] == b"hello\n"
    assert ended.output.splitlines()[-1] == "[ma_boot] exit code 0: success"


def test_ranks_get_the_rank_table_rendezvous(node: Node) -> None:
    node.boot(RANK, "print-environment")
    seen = json.loads(node.logs()["modelarts-job-test-proc-rank-1-device-1.txt"])
    table = node.home / "rank_table" / "jobstart_hccl.json"
    wanted = {"RANK_TABLE_FILE": str(table), "RANK_ID": "1", "RANK_SIZE": "2", "PYTHONUNBUFFERED": "1"}
    assert {name: seen.get(name) for name in wanted} == wanted  # the others are in tests/unit/launch
    assert Path(seen["ASCEND_PROCESS_LOG_PATH"]).is_dir()
    assert table.stat().st_mode & 0o777 == 0o640
    assert json.loads(table.read_text())["server_list"][0]["device"][1]["rank_id"] == "1"


def test_late_and_torn_rank_table_is_awaited(node: Node) -> None:
    node.table.unlink()
    running = node.start(RANK, "print:hello")
    running.until("the file does not exist yet")
    node.table.write_text('{"status":"initializing"}')
    node.table.write_text('{"group_count": "1", "gro')
    node.complete_table()
    ended = running.end()
    assert ended.code == 0, ended.output


def test_rank_table_that_stays_incomplete_ends_with_75(node: Node) -> None:
    node.table.write_text('{"status":"initializing"}')
    ended = node.boot("--rank-table-timeout", "0.2", RANK)
    assert ended.code == 75
    assert 'status is "initializing"' in ended.output


def test_invalid_rank_table_ends_with_65(node: Node) -> None:
    node.table.write_text('{"status":"completed","group_count":"2","group_list":[]}')
    ended = node.boot(RANK)
    assert ended.code == 65
    assert "  -> if the platform wrote it: restart the job" in ended.output
    assert "group_count" in ended.output


def test_missing_rank_table_variable_is_reported_at_once(node: Node) -> None:
    node.variables["RANK_TABLE_FILE"] = ""
    ended = node.boot(RANK)
    assert ended.code == 78
    assert "RANK_TABLE_FILE is not set" in ended.output


def test_arguments_reach_the_command_unchanged(node: Node) -> None:
    node.boot(RANK, "print-arguments", "--data_url=a b", "--plan", "--", "--train_url=$HOME;*")
    seen = json.loads(node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"])
    assert seen[1:] == ["print-arguments", "--data_url=a b", "--plan", "--", "--train_url=$HOME;*"]


@pytest.mark.parametrize("code", [1, 3, 125, 255])
def test_exit_code_is_that_of_the_first_failure(node: Node, code: int) -> None:
    ended = node.boot(RANK, f"exit:{code}:1", "sleep")
    assert ended.code == code
    assert f"exit code {code}: rank 1 ended with exit code {code}" in ended.output.splitlines()[-1]
    assert "rank 0 was killed by SIGTERM" in ended.output
    assert "stopped by ma_boot" in ended.output


def test_a_process_killed_by_a_signal_gives_128_and_its_number(node: Node) -> None:
    ended = node.boot(RANK, "kill:0", "sleep")
    assert ended.code == 137
    assert "rank 0 was killed by SIGKILL" in ended.output


def test_failure_file_is_written_for_programs(node: Node) -> None:
    node.boot(RANK, "print:last words", "exit:3:0", "sleep")
    document = json.loads(node.logs()["modelarts-job-test-node-0-failure.json"])
    assert document["exit_code"] == 3
    assert document["last_words"] == ["last words"]
    assert document["first_failure"]["part"] == "the cause"
    assert len(document["summary"]) <= 1024


def test_process_that_ignores_sigterm_is_killed_after_the_grace_period(node: Node) -> None:
    marker = node.root / "pid"
    ended = node.boot(
        "--stop-timeout", "0.3", RANK, "deaf", f"ready:{marker}", f"await:{marker}.0", f"await:{marker}.1",
        "exit:4:1", "sleep",
    )  # fmt: skip
    assert ended.code == 4
    assert "rank 0 was killed by SIGKILL" in ended.output
    assert not any(alive(pid) for pid in pids(node.root, "pid.*", 2))


def test_grandchild_holding_the_pipe_is_killed_without_delay(node: Node) -> None:
    ended = node.boot(RANK, f"grandchild:{node.root}/pid", "exit:0:all")
    assert ended.code == 0, ended.output
    eventually(lambda: not any(alive(pid) for pid in pids(node.root, "pid.*", 2)), "grandchildren gone")


@pytest.mark.invariant("A stalled reader blocks nothing; logs are bytes")
def test_binary_output_reaches_the_log_file_unchanged(node: Node) -> None:
    ended = node.boot(RANK, "raw")
    assert (
        node.logs()["modelarts-job-test-proc-rank-0-device-0.txt"]
        == b"caf\xe9 \xff\xfe\nlast line without an end"
    )
    assert "[rank 0] last line without an end\n" in ended.output


@pytest.mark.invariant("Every start may be the second one in its container")
def test_a_second_run_keeps_the_logs_of_the_first(node: Node) -> None:
    node.boot(RANK, "print:first")
    node.boot(RANK, "print:second")
    logs = node.logs()
    assert logs["modelarts-job-test-proc-rank-0-device-0.txt"] == b"second\n"
    assert logs["modelarts-job-test-proc-rank-0-device-0.1.txt"] == b"first\n"


def test_a_module_and_a_shell_file_are_commands_too(node: Node) -> None:
    assert (
        "[rank 1] 1\n"
        in node.boot("-m", "timeit", "-n1", "-r1", "import os; print(os.environ['RANK_ID'])").output
    )
    script = node.home / "train.sh"
    script.write_text("echo shell $RANK_ID $1\n")
    assert "[rank 1] shell 1 more\n" in node.boot("train.sh", "more").output


def test_a_script_is_found_in_the_jobs_code(node: Node) -> None:
    code = node.home / "modelarts" / "user-job-dir" / "code"
    code.mkdir(parents=True)
    (code / "train.py").write_text("print('found')\n")
    assert "[rank 0] found\n" in node.boot("train.py").output


def test_missing_command_is_reported_before_inputs_are_downloaded(node: Node) -> None:
    ended = node.boot(*node.mapping({"data": "obs://bucket/data/"}, {}), "train.py")
    assert ended.code == 127
    assert "train.py: no such file" in ended.output
    assert "inputs" not in ended.output


def test_training_imports_ma_boot_and_no_other_package_of_the_toolkit(node: Node) -> None:
    script = node.home / "train.py"
    script.write_text(
        "import ma_boot.training, sys\ntry:\n  import click\nexcept ImportError:\n  print('alone')\n"
    )
    venv.create(node.root / "env")
    ended = node.boot("--python", str(node.root / "env" / "bin" / "python"), "train.py")
    assert "[rank 0] alone\n" in ended.output


class TestInputsAndOutputs:
    """Path mappings, with a directory that stands in for OBS."""

    def test_inputs_are_downloaded_before_and_outputs_uploaded_after_the_training(self, node: Node) -> None:
        (node.obs / "bucket" / "data").mkdir(parents=True)
        (node.obs / "bucket" / "data" / "a.txt").write_text("input")
        options = node.mapping({"data": "obs://bucket/data/"}, {"out": "obs://bucket/out/"})
        ended = node.boot(*options, RANK, "await:data/a.txt", "write:out/rank_RANK/x:result")
        assert ended.code == 0, ended.output
        assert (node.home / "data" / "a.txt").read_text() == "input"
        assert (node.obs / "bucket" / "out" / "rank_1" / "x").read_text() == "result"

    @pytest.mark.invariant("Outputs are uploaded after every end, once the mapping is known")
    def test_outputs_are_uploaded_after_a_failure_too(self, node: Node) -> None:
        node.complete_table()
        mapping = node.mapping({}, {"out": "obs://bucket/out/"})
        waits = ("await:out/0", "await:out/1")
        ended = node.boot(*mapping, RANK, "write:out/RANK:x", *waits, "exit:3:all")
        assert ended.code == 3
        assert (node.obs / "bucket" / "out" / "0").exists()

    def test_missing_input_ends_with_66_before_a_rank_starts(self, node: Node) -> None:
        (node.obs / "bucket").mkdir()
        mapping = node.mapping({"a": "obs://bucket/a", "b": "obs://bucket/b/"}, {})
        ended = node.boot(*mapping, RANK, "print:started")
        assert ended.code == 66
        assert "obs://bucket/a" in ended.output
        assert "obs://bucket/b/" in ended.output
        assert "started" not in ended.output

    def test_failed_input_does_not_fail_the_rank_table_phase(self, node: Node) -> None:
        node.table.unlink()
        (node.obs / "bucket").mkdir()
        ended = node.boot(*node.mapping({"a": "obs://bucket/a"}, {}), RANK, "print:started")
        assert ended.code == 66
        outcomes = {
            e["phase"]: (e["outcome"], e["detail"]) for e in node.events() if e["kind"] == "phase-end"
        }
        assert outcomes["inputs"][0] == "failed"
        assert outcomes["rank table"] == ("stopped", "the inputs failed")
        assert "exit code 66: inputs: not in OBS" in ended.output

    def test_an_output_that_the_training_never_wrote_ends_with_74(self, node: Node) -> None:
        ended = node.boot(*node.mapping({}, {"ouput": "obs://bucket/out/"}), RANK, "write:out/RANK:x")
        assert ended.code == 74
        assert "left nothing at these output paths" in ended.output
        assert "ouput (for obs://bucket/out/)" in ended.output

    def test_node_without_rank_0_may_have_no_output(self, node: Node) -> None:
        node.variables.update(MA_NUM_HOSTS="2", VC_TASK_INDEX="1")
        node.index = 1
        node.complete_table(pods=2)
        ended = node.boot(*node.mapping({}, {"out": "obs://bucket/out/"}), RANK)
        assert ended.code == 0, ended.output
        assert "nothing to upload from" in ended.output

    def test_all_mistakes_of_a_mapping_are_reported_together(self, node: Node) -> None:
        ended = node.boot(*node.mapping({"a": "http://x", "b": "obs://B/x"}, {"": "obs://bucket/x"}), RANK)
        assert ended.code == 78
        assert "'http://x'" in ended.output
        assert "'B'" in ended.output
        assert "a local path" in ended.output
        assert "Traceback" not in ended.output

    def test_missing_credentials_are_reported_within_a_second(self, node: Node) -> None:
        ended = node.boot(*node.mapping({"a": "obs://bucket/a"}, {})[:2], RANK)
        assert ended.code == 78
        assert "OBS_ACCESS_KEY_ID, OBS_SECRET_ACCESS_KEY" in ended.output


class TestPlan:
    """`--plan` shows the processes without starting them."""

    def test_plan_as_json_lists_the_processes(self, node: Node) -> None:
        node.variables["MY_SECRET_KEY"] = "planted"
        ended = node.boot("--plan", "--json", RANK, "write:started:x")
        assert ended.code == 0
        worker = json.loads(ended.output)["nodes"][0]["workers"][1]
        assert worker["argv"][1:] == [RANK, "write:started:x"]
        assert worker["cwd"] == str(node.home)
        assert worker["log_file"].endswith("modelarts-job-test-proc-rank-1-device-1.txt")
        assert worker["environment"]["RANK_ID"] == "1"
        assert "planted" not in ended.output
        assert not (node.home / "started").exists()
        assert not (node.home / "rank_table").exists()

    def test_plan_as_text_shows_differences_and_equal_ranks_once(self, node: Node) -> None:
        ended = node.boot("--plan", RANK)
        assert "  ranks 0-1\n" in ended.output
        assert "    + RANK_ID={0-1}\n" in ended.output
