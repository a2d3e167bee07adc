"""`ma_boot job submit`, `watch`, `logs`, `list`, `stop`, against a stand-in that really runs the job."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.desk.job.request import MARK
from ma_boot.report.job_ledger import BEGUN, FAILED, EntryKey, LedgerEntry, entry_fields
from path_mapping.stores.open_store import open_store
from path_mapping.workers.retry import RetriedStore
from tests.functional.job.conftest import Desk
from tests.functional.node import eventually
from tests.functional.terminal import in_terminal
from tests.job_api.client import BODY, opened
from tests.job_api.stand_in import ApiFault, job_named
from tests.unit.report.page.seen import Seen


def test_a_job_is_submitted_and_watched_to_its_end_and_a_node_has_its_log(desk: Desk) -> None:
    done = desk.job("submit", "job.yaml", "--watch")
    assert done.code == 0, done
    lines = done.out.splitlines()
    job = job_named(desk.api, "first")
    assert job is not None
    assert lines[0] == job.id
    for node in (0, 1):
        for rank in (2 * node, 2 * node + 1):
            assert lines.count(f"[node {node}] [rank {rank}] hello") == 1
    assert "[job] Completed" in lines
    assert "[job] [worker-0] training started." in lines
    assert done.err.splitlines()[-1] == "ma_boot: the job is Completed; exit code 0"
    assert job.body["algorithm"]["code_dir"] == "/bucket/jobs/first/project/"
    assert ("PUT", "/bucket/jobs/first/project/train.py") in desk.obs.requests
    done = desk.job("logs", job.id, "--node", "1")
    assert done.code == 0
    assert "[node 1] [rank 2] hello" in done.out
    assert "[node 0]" not in done.out
    assert "[job]" not in done.out


@pytest.mark.invariant("Watching shows each line once and ends with the job's exit code")
def test_the_exit_code_is_that_of_the_first_failing_task(desk: Desk) -> None:
    done = desk.job(
        "submit", "job.yaml", "--watch", "--", "--rendezvous", "rank-table", "train.py", "exit:7:3"
    )
    assert done.code == 7, done
    assert "the job is Failed: worker-1 ended with 7" in done.err


def test_each_end_of_a_job_has_its_exit_code(desk: Desk) -> None:
    job = desk.submitted()
    ends: list[tuple[str, list[dict[str, object]], int]] = [
        ("Completed", [], 0),
        ("Failed", [], 1),
        ("Failed", [{"task": "worker-0", "exit_code": 0}, {"task": "worker-1", "exit_code": 137}], 137),
        ("Terminated", [], 143),
        ("Abnormal", [], 69),
    ]
    for job.phase, job.task_statuses, code in ends:
        done = desk.job("watch", job.id)
        assert (done.code, done.out) == (code, f"[job] {job.phase}\n"), done
        assert done.err.endswith(f"; exit code {code}\n"), done


def test_stopped_job_is_reported(desk: Desk) -> None:
    done = desk.job("submit", "job.yaml", "--", "train.py", "print:running", "sleep")
    assert done.code == 0, done
    job = done.out.strip()
    assert f"to follow it: ma_boot job watch {job}" in done.err
    watching = desk.start("watch", "first")
    log = desk.api.jobs[job].logs["worker-1"]
    eventually(lambda: "running" in str(log.page(None, "asc", 500)), "worker-1 prints")
    refused = desk.job("stop", "first")
    assert refused.code == 64
    assert "without a terminal, add --yes" in refused.err
    assert desk.job("stop", "first", "--yes").code == 0
    out, err = watching.communicate(timeout=60)
    assert watching.returncode == 143, err.decode()
    assert b"[job] Running\n" in out
    assert "the job is Terminated" in err.decode().splitlines()[-1]
    again = desk.job("stop", job, "--yes")
    assert again.code == 0
    assert again.out == f"{job} is Terminated already: nothing to stop\n"


def test_messages_of_the_service_are_masked_and_logs_are_not(desk: Desk) -> None:
    job = desk.submitted()
    job.say("starts train.py --sk planted")
    job.logs["worker-0"].add("--sk as-printed")
    job.phase = "Completed"
    lines = desk.job("watch", job.id).out.splitlines()
    assert "[job] starts train.py --sk ******" in lines
    assert "[node 0] --sk as-printed" in lines


def test_ctrl_c_leaves_the_job_running(desk: Desk) -> None:
    job = desk.job("submit", "job.yaml", "--", "train.py", "print:running", "sleep").out.strip()
    watching = desk.start("watch", job)
    assert watching.stdout is not None
    assert any(b"running" in line for line in watching.stdout)
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130
    back = f"To come back: ma_boot job watch {job}; to stop it: ma_boot job stop {job}"
    assert f"still running; you only stopped watching. {back}" in err.decode()
    assert desk.api.jobs[job].phase == "Running"


def test_jobs_are_listed_by_state_and_name(desk: Desk) -> None:
    for name, state in (("first", "Completed"), ("second", "Failed")):
        desk.submitted("--set", f"name={name}").phase = state
    table = desk.job("list").out.splitlines()
    assert [line.split()[-1] for line in table] == ["NAME", "second", "first"]
    rows = json.loads(desk.job("list", "--state", "Failed", "--json").out)
    assert [(row["name"], row["state"], row["nodes"]) for row in rows] == [("second", "Failed", 2)]
    assert [row["name"] for row in json.loads(desk.job("list", "--name", "irs", "--json").out)] == ["first"]
    missing = desk.job("watch", "third")
    assert missing.code == 66
    assert "third: no job of this name" in missing.err


def test_a_job_that_ends_while_it_is_stopped_is_no_error(desk: Desk) -> None:
    job = desk.submitted()
    desk.api.faults.append(ApiFault("late", f"GET .*/training-jobs/{job.id}"))
    stopping = desk.start("stop", job.id, "--yes")
    eventually(lambda: any(job.id in request for request in desk.api.requests), "it asks for the state")
    eventually(lambda: desk.api.is_late, "the state is known")
    job.phase = "Completed"
    desk.api.answer_late.set()
    out, err = stopping.communicate(timeout=60)
    assert (stopping.returncode, out.decode()) == (0, f"{job.id} is Completed already: nothing to stop\n"), (
        err
    )


def test_a_list_is_read_by_pages_and_the_end_of_a_log_alone(desk: Desk) -> None:
    desk.api.rehearse = False
    client = opened(desk.api)
    job, *others = (client.create(BODY) for _ in range(60))
    rows = json.loads(desk.job("list", "--limit", "55", "--json").out)
    assert len({row["id"] for row in rows} & {job, *others}) == 55
    desk.api.jobs[job].logs["worker-0"].add(*(f"line {number}" for number in range(20_000)))
    desk.api.requests.clear()
    done = desk.job("logs", job, "--node", "0", "--tail", "7")
    assert done.out.splitlines() == [f"[node 0] line {number}" for number in range(19_993, 20_000)]
    assert len([request for request in desk.api.requests if "/logs/" in request]) <= 3


def test_the_end_of_logs_with_each_combination_of_options(desk: Desk) -> None:
    job = desk.submitted()
    job.phase = "Running"
    for node, log in enumerate(job.logs.values()):
        log.add(*(f"2026-11-22 13:{minute:02}:00 node {node}" for minute in range(60)))
    job.logs["worker-1"].add("without a time")

    def shown(*words: str) -> list[str]:
        done = desk.job("logs", job.id, *words)
        assert done.code == 0, done.err
        return done.out.splitlines()

    assert len(shown()) == 121
    assert shown("--since", "1m", "--node", "0") == [
        "[node 0] 2026-11-22 13:58:00 node 0",
        "[node 0] 2026-11-22 13:59:00 node 0",
    ]
    last = ["[node 1] 2026-11-22 13:59:00 node 1", "[node 1] without a time"]
    assert shown("--tail", "1") == ["[node 0] 2026-11-22 13:59:00 node 0", last[1]]
    assert shown("--since", "30s", "--tail", "5") == ["[node 0] 2026-11-22 13:59:00 node 0", *last]
    missing = desk.job("logs", job.id, "--node", "7", "--node", "1")
    assert missing.code == 66
    assert "the job has no node 7; it has node 0, node 1" in missing.err
    following = desk.start("logs", job.id, "--node", "1", "--since", "30s", "--follow")
    assert following.stdout is not None
    assert [following.stdout.readline().decode().rstrip() for _ in range(2)] == last
    job.logs["worker-1"].add("2026-11-22 12:00:00 an old time, but a new line")
    assert b"a new line" in following.stdout.readline()
    job.phase = "Completed"
    assert following.communicate(timeout=60)[0] == b""
    assert following.returncode == 0


def test_a_log_without_times_and_one_that_is_not_there(desk: Desk) -> None:
    job = desk.submitted()
    done = desk.job("logs", job.id)
    assert (done.code, done.out) == (0, "")
    assert "the job is Creating; there is no log yet" in done.err
    job.logs["worker-0"].add("a", "b")
    done = desk.job("logs", job.id, "--since", "1m")
    assert done.out == "[node 0] a\n[node 0] b\n"
    assert "node 0: no line of its log has a time, so all are shown; --tail shows the last ones" in done.err


def test_stages_are_shown_each_once(desk: Desk) -> None:
    job = desk.submitted()
    job.phase = "Running"
    pulled = {"name": "pulling image", "en_message": "the image is pulled", "create_time": "1"}
    first = {"name": "scheduling", "stage_order": 1, "en_message": "scheduled", "start_time": "1"}
    second = {"name": "preparing", "stage_order": 2, "start_time": "2", "sub_stages": [pulled]}
    job.stages = [{"record_order": 1, "stages": [second, first, {"name": "running", "stage_order": 3}]}]
    watching = desk.start("watch", job.id)
    assert watching.stdout is not None
    for stage in (
        "Running",
        "scheduling: scheduled",
        "preparing",
        "preparing: pulling image: the image is pulled",
    ):
        assert watching.stdout.readline().decode() == f"[job] {stage}\n"
    job.stages.append({"record_order": 2, "stages": [first]})
    assert watching.stdout.readline() == b"[job] scheduling: scheduled\n", "a restart has stages of its own"
    desk.api.faults.append(ApiFault("500", "GET .*/stages", times=99))
    job.phase = "Completed"
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, out) == (0, b"[job] Completed\n")
    assert b"stages" not in err, "without them nothing is missing"


def test_ctrl_c_before_the_job_is_found_shows_how_to_resume_watching(desk: Desk) -> None:
    watching = desk.start("watch", "first", more={"MODELARTS_ENDPOINT": "http://127.0.0.1:1"})
    assert watching.stderr is not None
    assert b"trying again" in watching.stderr.readline()
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert b"To come back: ma_boot job watch first; to stop it: ma_boot job stop first" in err


def test_only_what_changed_is_uploaded(desk: Desk) -> None:
    desk.api.rehearse = False
    (desk.project / "more").mkdir()
    (desk.project / "more" / "odd #[name]!.py").write_text("x")
    (desk.project / "old.ckpt").write_text("x")
    (desk.project / "__pycache__").mkdir()
    (desk.project / "__pycache__" / "x.pyc").write_text("x")
    words = ("submit", "job.yaml", "--set", "exclude=*.ckpt")
    assert "code: 3 of 3 files uploaded" in desk.job(*words).err
    assert "code: 0 of 3 files uploaded" in desk.job(*words).err
    (desk.project / "train.py").write_text("print('other')")
    (desk.project / "more" / "odd #[name]!.py").unlink()
    assert "code: 1 of 2 files uploaded" in desk.job(*words).err
    bucket = {target for method, target in desk.obs.requests if method == "DELETE"}
    assert len(bucket) <= 1
    puts = {target for method, target in desk.obs.requests if method == "PUT"}
    assert not any("ckpt" in target or "pycache" in target for target in puts)


def test_a_secret_is_in_the_request_only_if_it_is_named(desk: Desk) -> None:
    assert "PLANTED" not in str(desk.submitted().body)
    job = desk.submitted("--set", "secrets=OBS_SECRET_ACCESS_KEY")
    variables = job.body["algorithm"]["environments"]
    token = variables.pop("MABOOT_JOB_TOKEN")
    assert variables == {"OBS_SECRET_ACCESS_KEY": "SKPLANTED", MARK: variables[MARK]}
    assert re.fullmatch("[0-9a-f]{32}", token)


def test_each_submission_of_several_nodes_has_a_token_of_its_own(desk: Desk) -> None:
    def token(*words: str) -> str | None:
        variables: dict[str, str] = desk.submitted(*words).body["algorithm"]["environments"]
        return variables.get("MABOOT_JOB_TOKEN")

    tokens = [token(), token()]
    assert None not in tokens
    assert tokens[0] != tokens[1]
    assert token("--set", "environment.MABOOT_JOB_TOKEN=0123456789abcdef") == "0123456789abcdef"
    assert token("--set", "environment.MABOOT_JOB_TOKEN=") == "", "a job without the channel, on purpose"
    assert token("--set", "nodes=1") is None


def test_token_of_a_submission_is_never_printed(desk: Desk) -> None:
    (desk.project / "train.py").write_text("import os\nassert 'MABOOT_JOB_TOKEN' not in os.environ\n")
    done = desk.job("submit", "job.yaml", "--watch", "--set", "command=train.py")
    assert done.code == 0, done
    (job,) = desk.api.jobs.values()
    token = job.body["algorithm"]["environments"]["MABOOT_JOB_TOKEN"]
    assert token not in done.out + done.err
    files = [file for file in desk.project.parent.rglob("*") if file.is_file()]
    assert [file for file in files if token.encode() in file.read_bytes()] == []


def test_the_page_of_a_job_is_made_from_its_log_path(desk: Desk) -> None:
    done = desk.job("submit", "job.yaml", "--watch", "--", "train.py", "print:hello", "exit:9:all")
    assert done.code == 9
    report = desk.job("report", "first")
    assert report.code == 0, report
    page = Path(report.out.splitlines()[-1])
    assert page == desk.project / "ma_boot-report" / "first" / "report.html"
    plan = json.loads(desk.job("submit", "job.yaml", "--plan", "--json").out)
    assert sorted(plan["code"]["files"]) == ["job.yaml", "train.py"], "it is no code of the next job"
    text = page.read_text()
    for words in ("node 0", "node 1", "hello"):
        assert words in text
    (desk.project / "job.yaml").write_text((desk.project / "job.yaml").read_text().replace("log-url:", "# "))
    desk.submitted("--set", "name=second")
    missing = desk.job("report", "second")
    assert missing.code == 66
    assert "the job has no log path in OBS" in missing.err


def test_report_of_a_job_shows_its_starts_with_the_queue_by_the_times_of_the_platform(desk: Desk) -> None:
    done = desk.job("submit", "job.yaml", "--watch", "--", "train.py", "exit:9:all")
    assert done.code == 9
    (job,) = desk.api.jobs.values()
    created = job.created / 1000
    times = ((1, 0, BEGUN, 100.0), (1, 1, FAILED, 700.0), (2, 0, BEGUN, 1000.0), (2, 1, FAILED, 1500.0))
    entries = [
        LedgerEntry(EntryKey(start, "9c41e0d2", attempt, outcome), "j", created + at, 2, paid=20.0)
        for start, attempt, outcome, at in times
    ]
    event = {"kind": "ledger", "node": 0, "time": created, "entries": [*map(entry_fields, entries)]}
    store = RetriedStore(open_store(desk.environ, None))
    (key,) = [stored.key for stored in store.listing("bucket", "log/") if "-node-0-events" in stored.key]
    store.write_bytes("bucket", key, b"".join(store.store.read("bucket", key)) + json.dumps(event).encode())
    records = ((created + 50, created + 710), (int(created + 710) + 190, created + 1510), (0, 0))
    first = int(created + 50) - created
    queues = [f"{first:.1f} s", "3 min 10 s"]
    job.records = [{"start_at": int(start), "end_at": int(end)} for start, end in records]
    report = desk.job("report", "first")
    assert "2 starts, useful node time 0.0 s of 80.0 s (0%)" in report.out, report
    rows = Seen(Path(report.out.splitlines()[-1]).read_text()).rows("starts")
    # The platform's times are whole seconds.
    assert [row[2].partition(" (")[2] for row in rows] == [f"queue {seconds})" for seconds in queues]


def test_missing_settings_are_reported_together(desk: Desk) -> None:
    nothing = dict.fromkeys(desk.environ, "") | {"PATH": desk.environ["PATH"], "HOME": desk.environ["HOME"]}
    done = desk.job("list", more=nothing)
    assert done.code == 78
    assert re.search(r"keys: set HUAWEICLOUD_SDK_AK and HUAWEICLOUD_SDK_SK, or OBS_", done.err)
    assert "region: set HUAWEICLOUD_SDK_REGION" in done.err


def test_wrongly_copied_keys_and_region_are_reported_together(desk: Desk) -> None:
    more = {
        "HUAWEICLOUD_SDK_AK": " AKPLANTED",
        "HUAWEICLOUD_SDK_SK": "SKPLANTED\n",
        "HUAWEICLOUD_SDK_REGION": "'cn'",
    }
    done = desk.job("list", more=more)
    assert done.code == 78
    assert "HUAWEICLOUD_SDK_AK: found a blank at its beginning" in done.err
    assert "HUAWEICLOUD_SDK_SK: found a line break at its end" in done.err
    assert """HUAWEICLOUD_SDK_REGION: found "'cn'", expected a region such as cn-north-4""" in done.err
    assert "PLANTED" not in done.err


def test_keys_of_the_sdks_file_and_the_project_by_the_region(desk: Desk) -> None:
    file = Path(desk.environ["HOME"], ".huaweicloud", "credentials")
    file.parent.mkdir()
    file.write_text("[basic]\nak = AKPLANTED\nsk = SKPLANTED\n")
    more = dict.fromkeys(("OBS_ACCESS_KEY_ID", "OBS_SECRET_ACCESS_KEY", "HUAWEICLOUD_SDK_PROJECT_ID"), "")
    done = desk.job(
        "list",
        more={**more, "HUAWEICLOUD_SDK_REGION": "cn-test-1", "HUAWEICLOUD_SDK_IAM_ENDPOINT": desk.api.url},
    )
    assert done.code == 0, done
    assert any("/v3/projects?name=cn-test-1" in request for request in desk.api.requests)
    wrong = desk.job("list", more={"OBS_SECRET_ACCESS_KEY": "another"})
    assert wrong.code == 69
    assert "APIGW.0301" in wrong.err
    assert "the keys are from OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY" in wrong.err


def test_temporary_keys_of_a_file_are_read_again(desk: Desk, tmp_path: Path) -> None:
    """The file of path_mapping: while a job is watched, its keys expire and are renewed."""
    file = tmp_path / "credentials.json"
    file.write_text('{"access": "AKPLANTED", "secret": "WRONGPLANTED", "securitytoken": "TOKENPLANTED"}')
    job = desk.submitted()
    more = {"OBS_CREDENTIALS_FILE": str(file)}
    refused = desk.job("list", more=more)
    assert refused.code == 69
    assert "the keys are from OBS_CREDENTIALS_FILE" in refused.err
    file.write_text('{"access": "AKPLANTED", "secret": "SKPLANTED", "securitytoken": "TOKENPLANTED"}')
    job.phase = "Completed"
    assert desk.job("watch", job.id, more=more).code == 0
    file.write_text("{}")
    missing = desk.job("list", more=more)
    assert missing.code == 78
    assert f"OBS_CREDENTIALS_FILE: {file} has no access, secret, securitytoken" in missing.err


def test_the_way_of_the_readme(desk: Desk) -> None:
    """Its commands as they stand there, after the keys; the names of image and pool are the reader's own."""
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    (block,) = re.findall(r"## On ModelArts\n.*?```sh\n(.*?)```", readme, re.DOTALL)
    lines = [line.partition("  #")[0] for line in block.splitlines() if line.startswith("ma_boot ")]
    assert len(lines) == 3
    (desk.project / "job.yaml").unlink()
    (desk.project / "train.py").write_text("import os; print('rank', os.environ['RANK_ID'])")
    desk.obs.create_bucket("my-bucket")
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] == "job":
            done = desk.job(*words[1:])
            assert done.code == 0, done
        else:
            main = [sys.executable, "-m", "ma_boot", *words]
            assert subprocess.run(main, cwd=desk.project, env=desk.environ, timeout=100).returncode == 0
    assert "[node 1] [rank 15] rank 15" in done.out


def test_on_a_terminal_the_state_is_below_the_output_and_takes_no_line_away(desk: Desk) -> None:
    job = desk.job("submit", "job.yaml", "--", "train.py", "print:hello").out.strip()
    argv = [sys.executable, "-m", "ma_boot", "job", "watch", job]
    shown = in_terminal(argv, desk.project, {**desk.environ, "TERM": "xterm"}, rows=24, columns=150)
    assert shown.code == 0
    assert b"first  Running" in shown.written or b"first  Completed" in shown.written
    assert [line for line in shown.lines if line.startswith("first  ")] == [], "nothing of the view remains"
    for rank in range(4):
        greeting = [line for line in shown.lines if line.endswith("hello") and f"[node {rank // 2}]" in line]
        assert len(greeting) == 2
