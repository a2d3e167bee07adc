"""Secrets in every spelling, planted where users put them, on every way out of text.

What a rank prints into its own log is its own, so the lines of ranks are left out here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ma_boot.cli.app import main
from ma_boot.node.observe.metrics.endpoint import Endpoint
from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.node.observe.metrics.record import HostSample, RankSample, Sample
from ma_boot.node.peers.failure_message import failures_body
from ma_boot.node.transfers.mapping import configured_store
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.redact import remember_secrets, without_secrets
from ma_boot.report.cause import causes_of
from ma_boot.report.result import WorkerExit
from tests.functional.node import Node

OPTIONS = [
    "--ak",
    "--sk",
    "-sk",
    "--api-key",
    "--access-key",
    "--wandb-key",
    "--secret-access-key",
    "--password",
    "--hf_token",
    "--auth-token",
    "--obs.sk",
    "--secretKey",
    "--apiKey",
    "--db-passwd",
    "--client-secret",
]
VARIABLES = ["SK", "AK", "WANDB_API_KEY", "KAGGLE_KEY", "GIT_CREDENTIALS", "PGPASSWORD"]
FIGURES = [  # no secrets: they stay readable
    *("--max-tokens", "4096", "--tokenizer-path", "/data/bpe.model", "MAX_TOKENS=131072", "BUILD_TOKENS=4"),
    *("TOKENIZERS_PARALLELISM=false", "PASSWORD_FILE=/run/secrets/pw", "monkey=some", "keyboard=qwerty"),
    *("task=translate", "--mask", "causal", "--risk", "low", "num_tokens=77", "--sort-key", "loss"),
]


def planted() -> Iterator[str]:
    """A new secret each time, that nothing else has by chance."""
    number = 0
    while True:
        number += 1
        yield f"Pl4nt3d{number:02}x"


def words(values: Iterator[str]) -> list[str]:
    """A command line's words with secrets in all the spellings."""
    spelt: list[str] = []
    for option in OPTIONS:
        spelt += [option, next(values), f"{option}={next(values)}"]
    spelt += [f"{name}={next(values)}" for name in VARIABLES]
    a, b, c = (next(values) for _ in range(3))
    spelt += [f'{{"sk": "{a}", "model": {{"api_key": "{b}"}}}}', f"sk: {c}\nlr: 0.1"]
    spelt += [f"Authorization: Bearer {next(values)}", f"https://me:p@{next(values)}@host/x.git"]
    spelt += [
        f"me:p@{next(values)}@host",
        f"https://b.obs/x?AccessKeyId={next(values)}&Signature={next(values)}&Expires=17",
    ]
    return [*spelt, *FIGURES]


# Of variables: shown nowhere, whatever text they stand in.
ENVIRONMENT = {
    "OBS_ACCESS_KEY_ID": "Pl4nt3dAK",
    "OBS_SECRET_ACCESS_KEY": "Pl4nt3dSK",
    "MABOOT_JOB_TOKEN": "Pl4nt3dJobToken0815",
    "WANDB_API_KEY": "Pl4nt3d/+Wandb=",
}
TRAIN = """
import os, sys
os.environ.update(HIDDEN=os.environ.get("SOURCED_TOKEN", ""))
found = [os.environ[name] for name in ("OBS_ACCESS_KEY_ID", "WANDB_API_KEY", "HIDDEN") if name in os.environ]
raise ValueError("x" * 250 + " " + " ".join([*found, *sys.argv[1:]]))
"""
PLANTED = re.compile(r"Pl4nt3d|Pl4nt")


def assert_none_in(text: str, figures: bool = True) -> None:
    """No secret is shown; all other words of a command line are."""
    shown = [line for line in text.splitlines() if PLANTED.search(line)]
    assert shown == [], "\n".join(shown)
    missing = [word for word in FIGURES if word not in text] if figures else []
    assert missing == [], text


def of_ma_boot(output: str) -> str:
    """The lines that are ma_boot's own, not a rank's."""
    return "\n".join(line for line in output.splitlines() if "[rank " not in line[:40])


def files_of(directory: Path, *patterns: str) -> dict[str, str]:
    """The files that match, by name."""
    return {str(file): file.read_text() for pattern in patterns for file in directory.rglob(pattern)}


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "env.sh").write_text("export SOURCED_TOKEN=Pl4nt3dSourced\n")
    return tmp_path


def ma_boot(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        [sys.executable, "-m", "ma_boot", *arguments],
        cwd=place,
        env={"PATH": path, "HOME": str(place), **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
def test_a_node_shows_none(node: Node, tmp_path: Path) -> None:
    """Its lines, events, failure file, page, env.log, and the page that `report` makes of its events."""
    node.variables.update(ENVIRONMENT)
    (node.home / "train.py").write_text(TRAIN)
    (node.home / "env.sh").write_text("export SOURCED_TOKEN=Pl4nt3dSourced\n")
    ended = node.boot("--workdir", "per-rank", "--source", "env.sh", "train.py", *words(planted()))
    assert ended.code == 1
    assert "exit code 1: rank" in ended.output
    assert "ValueError" in of_ma_boot(ended.output)
    assert_none_in(of_ma_boot(ended.output), figures=False)
    events = node.log_dir / "modelarts-job-test-node-0-events.jsonl"
    assert_none_in(events.read_text())
    assert_none_in((node.log_dir / "modelarts-job-test-node-0-failure.json").read_text(), figures=False)
    assert_none_in(
        (node.log_dir / "modelarts-job-test-node-0-report.html").read_text().replace("&quot;", '"')
    )
    logs = files_of(node.home, "env.log")
    assert len(logs) == node.devices
    assert_none_in("".join(logs.values()), figures=False)
    made = ma_boot(tmp_path, "report", str(events), "--output", "again.html")
    assert made.returncode == 0, made.stderr
    again = (tmp_path / "again.html").read_text()  # of another shell, which knows nothing of sourced files
    assert_none_in(again.replace("Pl4nt3dSourced", ""))


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_plan_shows_none(laptop: Path, more: Sequence[str]) -> None:
    for how in (["--rendezvous", "torch"], ["--local", "--append-args", shlex.join(words(planted()))]):
        arguments = words(planted())
        done = ma_boot(laptop, *how, "--plan", *more, "--source", "env.sh", "train.py", *arguments)
        assert done.returncode == 0, done.stderr
        assert_none_in(done.stdout + done.stderr)
        assert not more or json.loads(done.stdout)["nodes"]


def test_a_rehearsal_shows_none(laptop: Path) -> None:
    """Its lines, its mark and verdicts, all events and pages."""
    typed = ["--append-args", shlex.join(words(planted())), "train.py", *words(planted())]
    done = ma_boot(laptop, "--local", "--nodes", "2", *typed)
    assert done.returncode == 1, done.stdout
    assert_none_in(of_ma_boot(done.stdout + done.stderr), figures=False)
    kinds = ("rehearsal.json", "*events.jsonl", "*failure.json", "verdicts.json", "*.html")
    files = files_of(laptop, *kinds)
    assert all(any(Path(name).match(kind) for name in files) for kind in kinds if kind != "verdicts.json")
    for text in files.values():
        assert_none_in(text, figures=False)


JOB = """\
name: first
image: swr.cn-north-4.myhuaweicloud.com/vision/resnet:1
flavor: f
code-url: obs://bucket/jobs/
secrets: [OBS_ACCESS_KEY_ID, PLAIN_NAME]
environment: {MY_TOKEN: Pl4nt3dToken, WANDB_KEY: Pl4nt3dWandb, PIP_INDEX_URL: "https://me:Pl4nt3d@host/simple"}
parameters: {sk: Pl4nt3dParameter, lr: 0.1}
"""


class TestJobs:
    """The commands that send a job elsewhere."""

    @pytest.fixture(autouse=True)
    def variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(ENVIRONMENT, "PLAIN_NAME", "Pl4nt3dPlain")

    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_the_plan_of_a_submission_shows_none(self, laptop: Path, more: Sequence[str]) -> None:
        (laptop / "job.yaml").write_text(JOB)
        command = [word.partition("\n")[0] for word in words(planted())]  # the form takes no line break
        done = ma_boot(laptop, "job", "submit", "job.yaml", "--plan", *more, "--", "train.py", *command)
        assert done.returncode == 0, done.stderr
        assert_none_in(done.stdout + done.stderr)

    def test_a_manifest_has_them_in_its_secret_or_is_refused(self, laptop: Path) -> None:
        """Masked in the manifest, they would make another job of it."""
        form = ("job", "manifest", "job.yaml", "--platform", "volcano")
        (laptop / "job.yaml").write_text(JOB)
        done = ma_boot(laptop, *form, "--", "train.py", "--api-key", "Pl4nt3dArgument")
        assert done.returncode == 78
        assert "it would show secrets; name variables in `secrets`" in done.stderr
        assert "--sk=******" in done.stderr
        assert_none_in(done.stdout + done.stderr, figures=False)
        (laptop / "job.yaml").write_text(re.sub(r", PIP.*\n.*", "}", JOB))
        done = ma_boot(laptop, *form, "--", "train.py", *FIGURES)
        assert done.returncode == 0, done.stderr
        assert_none_in(done.stdout + done.stderr)
        for name in ("MY_TOKEN", "WANDB_KEY"):
            assert f'--from-literal={name}="${name}"' in done.stderr
            assert f'name: "{name}"\n' in done.stdout
        assert "******" not in done.stdout


@pytest.mark.invariant("No secret in a line, a plan, a page, an error or a message between processes")
def test_an_error_shows_none(laptop: Path) -> None:
    """Of the command line, of a file, and of a URL; and what the doctor and a plan of transfers say."""
    (laptop / "map.yaml").write_text("input: {x: 'obs://bucket/x?token=Pl4nt3dUrl'}\nsk: Pl4nt3dKey\n")
    lines = [
        ["--platform", "Pl4nt3dSK", "train.py"],
        ["--no-such=Pl4nt3dAK", "train.py"],
        ["--rendezvous", "torch", "--source", "Pl4nt3dSK.sh", "train.py"],
        ["--rendezvous", "torch", "--conda-env", "Pl4nt3dSK", "train.py"],
        ["Pl4nt3dSK/train.py"],
        ["sync", "plan", "map.yaml"],
        ["report", "Pl4nt3dSK"],
        ["doctor"],
        ["doctor", "--json"],
        ["job", "submit", "Pl4nt3dSK.yaml", "--plan"],
    ]
    for line in lines:
        done = ma_boot(laptop, *line)
        assert done.stdout + done.stderr, line
        assert_none_in(done.stdout + done.stderr, figures=False)


def test_a_traceback_shows_none(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nothing has foreseen quotes what it met."""

    def broken(*arguments: object, **named: object) -> None:
        raise RuntimeError(f"no {ENVIRONMENT['OBS_SECRET_ACCESS_KEY']}, nor --sk Pl4nt3dOther")

    monkeypatch.setattr("ma_boot.cli.execute.print_plan", broken)
    assert main(["--local", "--plan", "true"], {"PATH": os.environ["PATH"], **ENVIRONMENT}) == 70
    text = capfd.readouterr().err
    assert "Traceback" in text
    assert_none_in(text.replace('Pl4nt3dOther")', ""), figures=False)  # the line of this file itself


def test_messages_to_other_nodes_and_to_prometheus_have_none() -> None:
    remember_secrets(ENVIRONMENT, afresh=True)
    output = (
        "Traceback (most recent call last):\n  x\nValueError: " + "y" * 280 + " with --sk Pl4nt3d Pl4nt3dSK\n"
    )
    ended = WorkerExit("rank 0", 0, 0, 1, 1, None, 1, 1.0, False, "x", output)
    assert_none_in(json.dumps(failures_body(causes_of((ended,), 0, 0.0))), figures=False)
    served = Endpoint("127.0.0.1:0")
    reading = Reading(values={"Pl4nt3dSK": 1.0, "tokens": 4096.0})
    served.publish(Sample(0.0, (RankSample("rank 0", 0, None, reading),), HostSample()))
    with urllib.request.urlopen(f"http://{served.at}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    served.close()
    assert 'ma_boot_rank_value{name="******",node="0",rank="0"} 1.0\n' in text
    assert 'ma_boot_rank_value{name="tokens",node="0",rank="0"} 4096.0\n' in text
    assert "Pl4nt3d" not in text


def test_keys_of_a_file_are_known_once_they_are_used(tmp_path: Path) -> None:
    remember_secrets({}, afresh=True)
    keys = {"access": "Pl4nt3dAK", "secret": "Pl4nt3dSK", "securitytoken": "Pl4nt3dToken"}
    (tmp_path / "keys.json").write_text(json.dumps({"credential": keys}))
    environ = {"OBS_CREDENTIALS_FILE": str(tmp_path / "keys.json"), "OBS_ENDPOINT": "https://127.0.0.1:9"}
    configured_store(TransferOptions(), environ, str(tmp_path))
    assert without_secrets(" ".join(keys.values())) == "****** ****** ******"
