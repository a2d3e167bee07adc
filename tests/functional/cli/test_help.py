"""Help pages: each fits on a screen and has an example that works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ma_boot.cli.app import commands, main
from ma_boot.cli.help import Group
from ma_boot.cli.options.sources import declared_options
from ma_boot.cli.options.topics import TOPICS
from ma_boot.cli.run import run
from ma_boot.cli.run_command import ALL
from ma_boot.desk.rehearsal.faults import KINDS
from ma_boot.platform.rank_table import fake
from tests.command_lines import find_mistakes, tree
from tests.synthetic import synthetic_job

LINES, COLUMNS = 40, 80
ENVIRON = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


ALL_COMMANDS = dict(tree(commands))
COMMANDS = [(*words, "--help") for words in ALL_COMMANDS]
PAGES = [*COMMANDS, *(("--help", topic.name) for topic in TOPICS)]


def shown(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(words, {}) == 0
    output = capfd.readouterr()
    assert output.err == ""
    return output.out


def examples(page: str) -> list[str]:
    """Returns the command lines below `Example:`."""
    match = re.search(r"^ *Example:\n((?: +ma_boot .*\n)+)", page, re.MULTILINE)
    return [line.strip() for line in match.group(1).splitlines()] if match else []


def all_examples() -> list[str]:
    """Returns the examples of all pages, from the texts that the pages are made of."""
    of_topics = [line for topic in TOPICS for line in topic.examples]
    docs = [command.help or "" for command in ALL_COMMANDS.values()]
    return [*of_topics, *(line for doc in docs for line in examples(doc + "\n"))]


@pytest.mark.invariant("The help loads no heavy module, fits a screen, and its examples work")
def test_page_fits_on_a_screen_and_has_an_example(capfd: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for words in PAGES:
        page = shown(words, capfd)
        lines = page.splitlines()
        wide = [line for line in lines if len(line) > COLUMNS]
        if len(lines) > LINES or wide or not examples(page):
            wrong.append((words, len(lines), wide, examples(page)))
    assert wrong == []


def test_sentences_are_complete(capfd: pytest.CaptureFixture[str]) -> None:
    cut = {}
    for words in COMMANDS:
        page = re.sub(
            r"(COMMAND \[ARGS\]|\[ARGS\]|\[NAME\]|EVENTS|FILES|0,1,)\.\.\.", "", shown(words, capfd)
        )
        cut[words] = re.findall(r"\w*\.\.\.", page)
    assert {words: parts for words, parts in cut.items() if parts} == {}


def test_help_all_has_every_option_once(capfd: pytest.CaptureFixture[str]) -> None:
    page = shown(("--help", ALL), capfd)
    options = [
        param.declared.variable if param.declared.variable_only else param.opts[-1]
        for param in declared_options(run)
    ]
    assert sorted(re.findall(r"^  (?:-[vq], )?(--?[a-z-]+|MABOOT_\w+)", page, re.MULTILINE)) == sorted(
        options
    )


def test_every_option_has_exactly_one_topic() -> None:
    in_topics = [option for topic in TOPICS for option in topic.options]
    assert len({id(option) for option in in_topics}) == len(in_topics)
    assert {id(param) for param in run.params if isinstance(param, click.Option)} == set(map(id, in_topics))


def test_every_option_of_every_command_has_a_help_text() -> None:
    without_help = [
        (command.name, param.opts)
        for command in ALL_COMMANDS.values()
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert without_help == []


def test_every_path_completes() -> None:
    params = [param for command in ALL_COMMANDS.values() for param in command.params]
    paths = [param for param in params if param.metavar in ("FILE", "DIR", "PATH", "[DIR]")]
    assert len(paths) > 12
    context = click.Context(commands)
    for param in paths:
        (offered,) = param.shell_complete(context, "x")
        assert offered.type == ("dir" if "DIR" in str(param.metavar) else "file"), param.opts


def test_every_requirement_is_an_option_of_run() -> None:
    required = {needed.option for option in declared_options(run) for needed in option.declared.requires}
    assert required <= {param.name for param in run.params}


def test_every_kind_of_fault_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    words = set(re.findall(r"[a-z0-9-]+", shown(("--help", "faults"), capfd)))
    assert set(KINDS) - words == set()


@pytest.mark.parametrize("words", [["--help", "nonsense"], ["run", "--help", "nonsense"]])
def test_unknown_topic_lists_the_topics(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words, {}) == 64
    message = capfd.readouterr().err
    assert [topic.name for topic in TOPICS if topic.name not in message] == []


def test_help_after_the_script_is_that_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import sys; print('of the training:', *sys.argv[1:])")
    assert main(["--local", "train.py", "--help", "ranks"], ENVIRON) == 0
    assert "of the training: --help ranks" in capfd.readouterr().out


@pytest.mark.invariant("The help loads no heavy module, fits a screen, and its examples work")
def test_example_is_a_valid_command_line(job_directory: Path) -> None:
    assert {line: reasons for line in all_examples() if (reasons := find_mistakes(line))} == {}


ALONE = [
    line
    for line in all_examples()
    if line.startswith(("ma_boot sync", "ma_boot rank-table", "ma_boot report"))
]
NEEDS_MORE = ("generate", "/user/config", "server_0.json")  # cards, the platform, tables of real servers


@pytest.mark.parametrize("line", [line for line in ALONE if not any(word in line for word in NEEDS_MORE)])
def test_example_works(line: str, job_directory: Path) -> None:
    words = shlex.split(line.replace("/*-", "/job-node-0-"))[1:]
    more = ["--obs-root", "obs"] if words[0] == "sync" and "--obs-root" not in words else []
    assert main([*words, *more], ENVIRON) == 0


PLANNED = [line for topic in TOPICS for line in topic.examples if "--local" in line and "docker" not in line]


@pytest.mark.parametrize("line", PLANNED)
def test_example_of_a_rehearsal_has_a_plan(
    line: str, job_directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["--plan", "--json", *shlex.split(line)[1:]], ENVIRON) == 0
    assert json.loads(capfd.readouterr().out)["nodes"]


@pytest.fixture
def job_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    for name in ("jobstart_hccl.json", "yesterday.json"):
        Path(name).write_text(json.dumps(fake(2, 8)))
    Path("train.py").write_text("print('trained')")
    Path("job.yaml").write_text("command: train.py\nnodes: 2\n")
    Path("path_mapping_config.py").write_text(
        "PATH_MAPPING_CONFIG = {'input': {'data': 'obs://bucket/data/'}, 'output': {'out': 'obs://bucket/out/'}}"
    )
    for name in ("obs/bucket/data", "out", "log", "old"):
        Path(name).mkdir(parents=True)
    Path("obs/bucket/data/file").write_text("content")
    Path("out/file").write_text("content")
    for log in ("log", "old"):
        Path(f"{log}/job-node-0-events.jsonl").write_text(synthetic_job(1, 2)[0])
    return tmp_path


def test_overview_has_the_first_sentence_of_each_command() -> None:
    assert isinstance(commands, Group)
    assert [commands.about(name) for name in commands.commands] == [
        command.get_short_help_str(1000) for command in commands.commands.values()
    ]


def test_overview_imports_no_command() -> None:
    program = "import sys; from ma_boot.cli.app import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {name for name in loaded if name.startswith("ma_boot.cli.")} == {
        "ma_boot.cli.app",
        "ma_boot.cli.help",
    }


def test_start_runs_no_garbage_collection() -> None:
    program = (
        "import contextlib, gc, os, typing; gc.collect(); before = gc.get_stats()[0]; from ma_boot.__main__ import main\n"
        "main(['--help']); print(gc.get_stats()[0]['collections'] - before['collections'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"


def test_program_skips_the_teardown_of_the_interpreter() -> None:
    """The teardown takes some 10 ms after each job; `python -v` prints it."""
    done = subprocess.run(
        [sys.executable, "-v", "-m", "ma_boot", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ma_boot ")
    assert "import 'ma_boot.cli.app'" in done.stderr
    assert "# cleanup" not in done.stderr
