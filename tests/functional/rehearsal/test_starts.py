"""A job that the platform starts again and again: what its ledger remembers, and which start ends at once.

The platform is simulated (`--fault 'rescheduled times=N'`): new containers and processes, the same storage.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.node import Ended
from tests.functional.rehearsal.jobs import node_events, rehearse, with_outputs, write
from tests.unit.report.page.seen import Seen

CHECKPOINTS = {
    "obs": "obs://bucket/ckpt",
    "checkpoint": "iter_{step}/rank_{rank}.bin",
    "restore": "latest",
    "interval": 1,
}
ONE = ["--nodes", "1", "--devices-per-node", "1"]
FAILS = "raise ValueError('bad label 91')"
SAVED = ["from ma_boot.training import checkpoint", "checkpoint(step)"]
STOPPED = "started 2 times before with the same failure (ValueError: bad label 91 at project/train.py:"


def starts(
    laptop: Path, *lines: str, times: int = 3, more: dict[str, str] | None = None, kind: str = "rescheduled"
) -> Ended:
    """Runs a training of these lines, which the platform starts again after each failure."""
    (laptop / "obs" / "bucket").mkdir(parents=True, exist_ok=True)
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), "--fault", f"{kind} times={times}"]
    return rehearse(laptop, *options, write(laptop, *lines), more=more)


def real_starts(laptop: Path) -> int:
    """The training itself notes its starts beside the rehearsal: new containers have new logs."""
    return len(list(laptop.glob("started-*")))


def noted(laptop: Path) -> str:
    """A line by which the training notes that it has started."""
    return f"open({str(laptop)!r} + f'/started-{{time.time()}}', 'w').close()"


def entries(laptop: Path) -> list[tuple[str, dict[str, Any]]]:
    """The outcomes and documents of the ledger in the order of time."""
    files = (laptop / "obs").glob("bucket/**/ledger/*/*/*.json")
    found = [(file.stem, json.loads(file.read_text())) for file in files]
    return sorted(found, key=lambda entry: float(entry[1]["at"]))


def outcomes(laptop: Path) -> list[str]:
    return [stem for stem, _ in entries(laptop)]


@pytest.mark.parametrize("kind", ["rescheduled", "restart"])
def test_deterministic_failure_is_started_twice_only(laptop: Path, kind: str) -> None:
    ended = starts(laptop, noted(laptop), FAILS, kind=kind)
    assert ended.code == 1, ended.output
    assert real_starts(laptop) == 2
    assert outcomes(laptop) == [
        "00000-begun", "00001-failed", "00000-begun", "00001-failed", "00000-refused", "00000-refused",
    ]  # fmt: skip
    (last,) = [line for line in ended.output.splitlines() if line.startswith("[ma_boot] exit code 1: ")]
    assert STOPPED in last
    assert "no complete checkpoint; the code is the same. Change it, or set MABOOT_IGNORE_LEDGER=1" in last
    (failure,) = laptop.glob("ma_boot-rehearsal/*/node-0/home/ma-user/modelarts/log/*-node-0-failure.json")
    assert STOPPED in json.loads(failure.read_text())["summary"]
    first = entries(laptop)[1][1]
    assert (first["words"], first["kind"], first["code"]) == ("ValueError: bad label 91", "deterministic", 1)


def test_code_of_the_cause_is_that_of_the_start_that_was_not_made(laptop: Path) -> None:
    ended = starts(laptop, noted(laptop), "print('bad arguments', file=sys.stderr); sys.exit(2)")
    assert (ended.code, real_starts(laptop)) == (2, 2), ended.output


def test_failure_with_a_newer_checkpoint_goes_on(laptop: Path) -> None:
    saves = [
        noted(laptop),
        "step = int(os.environ.get('MABOOT_RESTORED_STEP') or 0) + 10",
        "os.makedirs(f'out/iter_{step}')",
        "open(f'out/iter_{step}/rank_0.bin', 'w').write(str(step))",
        *SAVED,
        FAILS,
    ]
    ended = starts(laptop, *saves)
    assert ended.code == 1
    assert real_starts(laptop) == 4, ended.output
    wholes = [entry["whole"] for stem, entry in entries(laptop) if stem.endswith("failed")]
    assert wholes == ["10", "20", "30", "40"]


def test_failure_at_the_same_checkpoint_ends_the_third_start(laptop: Path) -> None:
    saves = [
        noted(laptop),
        "os.makedirs('out/iter_400', exist_ok=True)",
        "if not os.environ.get('MABOOT_RESTORED_STEP'):",
        "    open('out/iter_400/rank_0.bin', 'w').write('x'); step = 400",
        *("    " + line for line in SAVED),
        FAILS,
    ]
    ended = starts(laptop, *saves)
    assert (ended.code, real_starts(laptop)) == (1, 2), ended.output
    assert "no newer checkpoint since step 400; the code is the same" in ended.output


def test_removed_checkpoint_makes_another_start_worthwhile(laptop: Path) -> None:
    saves = [
        noted(laptop),
        "os.makedirs('out/iter_400', exist_ok=True)",
        "if not os.environ.get('MABOOT_RESTORED_STEP'):",
        "    open('out/iter_400/rank_0.bin', 'w').write('x'); step = 400",
        *("    " + line for line in SAVED),
        "else:",
        f"    import shutil; shutil.rmtree({str(laptop / 'obs/bucket/ckpt/.ma_boot/manifests')!r})",
        FAILS,
    ]
    starts(laptop, *saves, times=2)
    assert real_starts(laptop) == 3


@pytest.mark.parametrize(
    "failure",
    [
        "raise ConnectionError('connection reset by peer')",
        "import signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "raise ValueError(f'bad label {time.time_ns()} {open(os.devnull).fileno()} x{os.urandom(2).hex()}')",
    ],
)
def test_failure_that_may_not_come_again_goes_on(laptop: Path, failure: str) -> None:
    starts(laptop, noted(laptop), failure, times=2)
    assert real_starts(laptop) == 3


def test_changed_code_goes_on(laptop: Path) -> None:
    changes = f"open({str(laptop / 'project' / 'parameters.txt')!r}, 'a').write('one more')"
    (laptop / "project" / "parameters.txt").write_text("x")
    starts(laptop, noted(laptop), changes, FAILS, times=2)
    assert real_starts(laptop) == 3


def test_changed_mapping_goes_on(laptop: Path) -> None:
    changes = f"open({str(laptop / 'mapping.py')!r}, 'a').write('# changed\\n')"
    starts(laptop, noted(laptop), changes, FAILS, times=2)
    assert real_starts(laptop) == 3


def test_user_can_ignore_the_ledger(laptop: Path) -> None:
    starts(laptop, noted(laptop), FAILS, times=2, more={"MABOOT_IGNORE_LEDGER": "1"})
    assert real_starts(laptop) == 3


@pytest.mark.parametrize(
    ("option", "failure", "expected"),
    [
        (["--retry-on", "bad label [0-9]+"], FAILS, 3),
        (["--no-retry-on", "reset by peer"], "raise ConnectionError('connection reset by peer')", 1),
    ],
)
def test_words_of_the_user_come_before_the_rules(
    laptop: Path, option: list[str], failure: str, expected: int
) -> None:
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), *option, "--fault", "rescheduled times=2"]
    ended = rehearse(laptop, *options, write(laptop, noted(laptop), failure))
    assert real_starts(laptop) == expected, ended.output


def test_job_that_recovers_succeeds_and_says_so_in_the_ledger(laptop: Path) -> None:
    once = f"if len([n for n in os.listdir({str(laptop)!r}) if n.startswith('started-')]) < 2: {FAILS}"
    save = (
        "os.makedirs('out/iter_5'); open('out/iter_5/rank_0.bin', 'w').write('x'); print('step: 5 loss: 1.0')"
    )
    ended = starts(laptop, noted(laptop), once, save, "time.sleep(0.2)  # a tenth of a second is the unit")
    assert (ended.code, real_starts(laptop)) == (0, 2), ended.output
    assert outcomes(laptop) == ["00000-begun", "00001-failed", "00000-begun", "00001-succeeded"]
    last = entries(laptop)[-1][1]
    assert (last["step"], last["whole"]) == (5, "5")
    assert 0 < last["useful"] <= last["paid"]


def test_attempts_in_place_are_entries_of_their_start(laptop: Path) -> None:
    more = {"MABOOT_START_SECONDS": "0"}
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), "--max-restarts", "3"]
    rehearse(laptop, *options, write(laptop, noted(laptop), "time.sleep(0.2)", FAILS), more=more)
    assert outcomes(laptop) == ["00000-begun", "00001-failed", "00002-failed"]
    assert entries(laptop)[-1][1]["rule"] == "repeated"


@pytest.mark.parametrize("kind", ["restart", "rescheduled"])
def test_next_start_names_the_server_whose_hardware_failed(laptop: Path, kind: str) -> None:
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), "--fault", f"{kind} times=1"]
    ended = rehearse(
        laptop,
        *options,
        "--fault",
        "bad-card node=0 at=500ms",
        write(laptop, noted(laptop), "time.sleep(2)", FAILS),
    )
    said = "the last start ended by hardware of server 127.0.0.1: NPU 0 is Alarm (npu-smi)"
    assert said in ended.output
    again = "the platform gave this job the same server again, as node 0"
    assert (again in ended.output) == (kind == "restart"), ended.output
    (event,) = node_events(laptop, "broken server")
    assert (event["server"], event["again"]) == ("127.0.0.1", kind == "restart")


HOSTILE = [
    b"", b"{", b"null", b"[" * 1000, b'{"at": 1e999, "nodes": "x"}', b"\xff\xfe", b"x" * 100_000,
    b'{"job": "j", "at": 1, "nodes": 1, "words": "\\ud800\\u001b[2J", "code": 99999, "digest": 3}',
]  # fmt: skip


def test_hostile_ledger_changes_nothing(laptop: Path) -> None:
    hostile = [
        noted(laptop),
        f"hostile = {HOSTILE!r}",
        f"ledger = [place for place, _, _ in os.walk({str(laptop / 'obs')!r}) if place.endswith('/ledger')][0]",
        "job = ledger + '/' + os.listdir(ledger)[0]",
        "files = [place + '/' + name for place, _, names in os.walk(job) for name in names]",
        "for number, file in enumerate(files): open(file, 'wb').write(hostile[number % len(hostile)])",
        "os.makedirs(job + '/999990-aaaaaaaa', exist_ok=True)",
        "for number, content in enumerate(hostile):",
        "    open(f'{job}/999990-aaaaaaaa/{number:05}-failed.json', 'wb').write(content)",
        FAILS,
    ]
    ended = starts(laptop, *hostile, times=2)
    assert (ended.code, real_starts(laptop)) == (1, 3), ended.output
    assert "internal error" not in ended.output


def test_ledger_that_cannot_be_read_or_written_changes_nothing(laptop: Path) -> None:
    (laptop / "obs" / "bucket").mkdir(parents=True, exist_ok=True)
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), "--fault", "rescheduled times=2"]
    options += ["--fault", "obs-503 key=ledger"]
    ended = rehearse(laptop, *options, write(laptop, noted(laptop), FAILS))
    assert (ended.code, real_starts(laptop)) == (1, 3), ended.output
    assert ended.output.count("the job's ledger is not used") == 3


def test_ledger_of_a_job_without_checkpoints_has_a_url(laptop: Path) -> None:
    more = {"MABOOT_LEDGER": "obs://bucket/ledgers"}
    options = [*ONE, "--obs-root", "obs", "--fault", "rescheduled times=2"]
    rehearse(
        laptop,
        *options,
        write(laptop, noted(laptop), "print('step: 3 loss: 0.5', flush=True)", FAILS),
        more=more,
    )
    assert real_starts(laptop) == 2, "the steps show that nothing was gained"
    assert outcomes(laptop)[-1] == "00000-refused"


def test_unknown_progress_goes_on(laptop: Path) -> None:
    more = {"MABOOT_LEDGER": "obs://bucket/ledgers"}
    options = [*ONE, "--obs-root", "obs", "--fault", "rescheduled times=2"]
    rehearse(laptop, *options, write(laptop, noted(laptop), FAILS), more=more)
    assert real_starts(laptop) == 3


def test_all_nodes_end_where_node_0_ends_at_once(laptop: Path) -> None:
    options = ["--nodes", "2", "--devices-per-node", "1", *with_outputs(laptop, out=CHECKPOINTS)]
    training = write(laptop, noted(laptop), f"if rank == 1: {FAILS}", "time.sleep(60)")
    ended = rehearse(laptop, *options, "--fault", "rescheduled times=2", training)
    assert ended.code == 1, ended.output
    assert real_starts(laptop) == 4, "two starts with two ranks"
    assert STOPPED in ended.output


def test_job_that_a_person_starts_by_hand_is_never_ended(laptop: Path) -> None:
    (laptop / "obs" / "bucket").mkdir(parents=True, exist_ok=True)
    (laptop / "project" / "train.py").write_text(f"import time\n{noted(laptop)}\n{FAILS}\n")
    options = [*with_outputs(laptop, out=CHECKPOINTS), "--rendezvous", "none", "project/train.py"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environ = {"PATH": path, "HOME": str(laptop), "MA_LOG_DIR": str(laptop / "log")}
    for _ in range(3):
        argv = [sys.executable, "-m", "ma_boot", "--platform", "bare", *options]
        ended = subprocess.run(argv, cwd=laptop, env=environ, capture_output=True, text=True)
        assert ended.returncode == 1, ended.stdout + ended.stderr
    assert real_starts(laptop) == 3
    assert outcomes(laptop) == ["00000-begun", "00001-failed"] * 3


SURVIVES = [
    "step = int(os.environ.get('MABOOT_RESTORED_STEP') or 0) + 10",
    "os.makedirs(f'out/iter_{step}')",
    "open(f'out/iter_{step}/rank_0.bin', 'w').write(str(step))",
    *SAVED,
    # The upload of the checkpoint comes before the failure.
    "if step < 50: time.sleep(1.2); raise ValueError(f'bad label 91 of {step}')",
]


def reported(laptop: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ma_boot", "report", *arguments]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(laptop)}
    return subprocess.run(
        command, cwd=laptop, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_reports_of_a_job_that_survived_show_all_its_starts(laptop: Path) -> None:
    (laptop / "obs" / "bucket").mkdir(parents=True, exist_ok=True)
    options = [*ONE, *with_outputs(laptop, out=CHECKPOINTS), "--fault", "rescheduled times=3"]
    more = {"MABOOT_MAX_RESTARTS": "1", "MABOOT_START_SECONDS": "0"}
    ended = rehearse(laptop, *options, write(laptop, *SURVIVES), more=more)
    assert ended.code == 0, ended.output
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    shown = Seen(page.read_text())
    headline = "The job succeeded after 4 restarts (2 in place): its process ended with exit code 0."
    assert shown.headline == headline
    rows = shown.rows("starts")
    assert [(row[0], row[4], row[7]) for row in rows] == [
        ("1", "2", "20"),
        ("2", "2", "40"),
        ("3", "1", "50"),
    ]
    failed = "failed: ValueError: bad label 91 of 40 (project/train.py:8)"
    assert [row[8] for row in rows[1:]] == [failed, "succeeded"]
    lines = reported(laptop, str(page.parent)).stdout.splitlines()
    assert lines[0] == headline
    (summary,) = [at for at, line in enumerate(lines) if line.startswith("3 starts, useful node time ")]
    table = lines[summary:-1]
    assert [line[:1] for line in table[1:]] == ["S", "1", "2", "3"]
    of_obs = reported(laptop, "obs://bucket/ckpt", "--obs-root", "obs")
    first, *rest = of_obs.stdout.splitlines()
    assert first.endswith(": succeeded after 4 restarts (2 in place)"), of_obs
    assert rest == table
    (job,) = json.loads(reported(laptop, "obs://bucket/ckpt", "--obs-root", "obs", "--json").stdout)["jobs"]
    starts = job["all_starts"]
    assert (starts["restarts"], starts["restarts_in_place"]) == (4, 2)
    paid = sum(document["paid"] for _, document in entries(laptop))
    assert sum(starts["seconds_by_use"].values()) == pytest.approx(paid)
    assert starts["seconds_by_use"]["lost steps"] > 0
    assert starts["seconds_between"] > 0


def test_start_that_was_not_made_stands_in_the_report(laptop: Path) -> None:
    starts(laptop, FAILS)
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    rows = Seen(page.read_text()).rows("starts")
    assert [row[8].partition(":")[0] for row in rows] == [
        "failed", "failed", *["ended at once, as it would fail again"] * 2,
    ]  # fmt: skip


def test_events_of_a_job_are_shown_with_its_ledger_from_obs(laptop: Path) -> None:
    starts(laptop, FAILS, times=1)
    (page,) = laptop.glob("ma_boot-rehearsal/*/report.html")
    for events in page.parent.rglob("*-events.jsonl"):
        lines = events.read_text().splitlines(keepends=True)
        events.write_text("".join(line for line in lines if '"kind": "ledger"' not in line))
    assert "2 starts" not in reported(laptop, str(page.parent)).stdout
    ended = reported(laptop, str(page.parent), "obs://bucket/ckpt", "--obs-root", "obs")
    assert "2 starts, useful node time " in ended.stdout
    assert len(Seen(page.read_text()).rows("starts")) == 2
