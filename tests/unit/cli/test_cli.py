"""Command line: one message for each mistake, and options from command line, variables and job file."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given, strategies as st

from ma_boot.cli.app import main
from ma_boot.cli.options.click_types import Number, Whole
from ma_boot.cli.options.declared import DeclaredOption
from ma_boot.cli.options.sources import read_environment
from ma_boot.cli.run import run
from ma_boot.node.boot.request import (
    GROUPS,
    as_options,
    as_variables,
    boot_command,
    build_request,
    command_text,
)
from ma_boot.node.environment.command import read_start_script
from ma_boot.node.environment.command_words import read_command
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.launch.worker_specs import OF_NODE, OF_RANK
from ma_boot.node.option import options_in
from ma_boot.redact import remember_secrets


def parsed(arguments: list[str], environ: dict[str, str]) -> dict[str, object]:
    """Returns the values that `run` would get."""
    context = run.make_context("run", list(arguments), default_map=read_environment(run, environ))
    return dict(context.params)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'COMMAND [ARGS]...'"),
        (["--local", "--fault", "all", "--plan"], "Missing argument 'COMMAND [ARGS]...'"),
        (["--lcal", "train.py"], "No such option"),
        (["--rendezvous", "smoke", "train.py"], "'smoke' is not one of 'rank-table', 'mindspore'"),
        (["--nodes", "0", "--local", "train.py"], "'0' is not a whole number from 1 to 1024"),
        (["--stop-timeout", "soon", "train.py"], "'soon' is not a number of at least 0"),
        (["--json", "train.py"], "--json: only for plans and rehearsals; add --plan or --local."),
        (["--local", "-q", "-v", "train.py"], "--quiet, --verbose: expected one of them."),
        (["-q", "train.py"], "--quiet: only for rehearsals"),
        (["--nodes", "2", "train.py"], "--nodes: only for rehearsals"),
        (["--runner", "docker", "train.py"], "--runner: only for rehearsals"),
        (["--local", "--runner", "docker", "train.py"], "name the job's image with --image"),
        (["--local", "--image", "i", "train.py"], "--image: only for containers"),
        (["--memory", "5g", "x"], "--memory: no option; set the environment variable MABOOT_MEMORY"),
        (["sync", "plan", "--stall-timeout=5", "x"], "set the environment variable MABOOT_STALL_TIMEOUT"),
        (
            ["--local", "--runner", "docker", "--image", "i", "--plan", "x"],
            "--plan: only with --runner process.",
        ),
    ],
)
def test_invalid_command_line_is_one_message_and_exits_with_64(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, {}) == 64
    output = capfd.readouterr()
    assert message in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.invariant("All conflicting options are reported together")
def test_conflicting_options_are_reported_together(capfd: pytest.CaptureFixture[str]) -> None:
    wrong = ["--nodes", "2", "--json", "--fault", "hang rank=0"]
    variables = {
        "MABOOT_KEEP": "1",
        "MABOOT_NON_SINK": "1",
        "MABOOT_COPY_CODE": "*",
        "MABOOT_SANDBOX": "bwrap",
    }
    assert main(wrong, variables) == 64
    assert capfd.readouterr().err.splitlines()[:-1] == [
        "ma_boot: Missing argument 'COMMAND [ARGS]...'.",
        "--json: only for plans and rehearsals; add --plan or --local.",
        "--nodes, MABOOT_SANDBOX, --fault, MABOOT_KEEP: only for rehearsals; add --local.",
        "MABOOT_NON_SINK: non-sink mode needs --rendezvous mpi",
        "MABOOT_COPY_CODE: only with --workdir per-rank",
    ]


def test_sizes_have_the_units_of_container_engines() -> None:
    sizes = [parsed(["x"], {"MABOOT_MEMORY": size})["memory"] for size in ("7", "8k", "512M", "64g")]
    assert sizes == [7, 8 << 10, 512 << 20, 64 << 30]
    with pytest.raises(click.BadParameter, match="found '5q', expected a number of bytes"):
        parsed(["x"], {"MABOOT_MEMORY": "5q"})
    assert parsed(["x"], {"MABOOT_SHM_SIZE": "1g"})["shm_size"] == 1 << 30
    assert (parsed(["x"], {})["memory"], parsed(["x"], {})["shm_size"]) == (None, 2 << 30)


def test_option_precedes_variable_precedes_default() -> None:
    environ = {
        "MABOOT_STOP_TIMEOUT": "7",
        "MABOOT_CONDA_ENV": "e",
        "MABOOT_SOURCE": "/a:/b",
        "MABOOT_LOCAL": "1",
    }
    values = parsed(["--stop-timeout", "3", "train.py"], environ)
    assert (values["stop_timeout"], values["conda_env"], values["upload_timeout"]) == (3.0, "e", 600.0)
    assert (values["source"], values["local"]) == (("/a", "/b"), True)


def test_every_option_has_a_variable() -> None:
    options = [p for p in run.params if isinstance(p, click.Option) and p.opts[-1].startswith("--")]
    wanted = {"MABOOT_" + option.opts[-1][2:].replace("-", "_").upper(): "1" for option in options}
    assert set(read_environment(run, wanted)) == {option.name for option in options}


def test_every_rendezvous_has_a_launcher() -> None:
    rendezvous = next(option for option in options_in(LaunchOptions) if option.name == "rendezvous")
    assert set(rendezvous.kind.choices) == {*OF_RANK, "mpi", "launcher"} == {*OF_NODE, "mpi"}


def test_job_file_hides_variables_of_the_shell_except_those_of_the_rehearsal(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: train.py\nenvironment: {MABOOT_STOP_TIMEOUT: 7}\n")
    shell = {
        "MABOOT_KEEP_REHEARSALS": "3",
        "MABOOT_EXCLUDE": "x",
        "MABOOT_TEE": "first",
        "MABOOT_STOP_TIMEOUT": "9",
    }
    values = parsed(["--local", "--job", str(file)], shell)
    assert (values["keep_rehearsals"], values["exclude"], values["tee"]) == (3, (), "all")
    assert values["stop_timeout"] == 7.0


def test_patterns_of_the_command_line_are_added_to_those_of_the_job_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: train.py\nexclude: [data/]\n")
    assert parsed(["--local", "--job", str(file)], {})["exclude"] == ("data/",)
    values = parsed(["--local", "--job", str(file), "--exclude", "*.ckpt"], {})
    assert values["exclude"] == ("data/", "*.ckpt")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["train.py", "--plan", "--", "-x"], ("train.py", "--plan", "--", "-x")),
        (["--", "run", "--plan"], ("run", "--plan")),
        (["-m", "pkg.train", "-m", "x"], ("pkg.train", "-m", "x")),
    ],
)
def test_words_after_the_command_belong_to_it(arguments: list[str], command: tuple[str, ...]) -> None:
    values = parsed(arguments, {})
    assert (values["command"], values["plan"]) == (command, False)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
OF_A_FORM = {
    "devices": ["0", "1,2", "3,1,2"],
    "tee": ["all", "first", "none", "0,3"],
    "metrics": ["off", "1", "2.5", "3600"],
    "metric": ["loss=a: ([0-9.]+)", "lr=\\S+\n_x=[:=]"],
    "retry_on": ["lease expired", "a:b\n[0-9]+ x"],
    "no_retry_on": ["bad label", "x|y"],
    "ledger": ["obs://bucket/ledger"],
    "metrics_port": ["0", "127.0.0.1:9400", "[::1]:65535"],
}


def values_of(option: DeclaredOption) -> st.SearchStrategy[str]:
    """Values that a variable may give to an option."""
    kind = option.type
    if option.name in OF_A_FORM or isinstance(kind, click.Choice):
        return st.sampled_from(OF_A_FORM.get(str(option.name)) or list(getattr(kind, "choices", ())))
    if isinstance(kind, Number):
        return st.floats(kind.min, 1e6, exclude_min=kind.min_open).map(str)
    if isinstance(kind, Whole):
        return st.integers(int(kind.min or 0), int(kind.max or 64)).map(str)
    return st.sampled_from(["0", "1"]) if option.is_flag else TEXT


def options_of_a_request() -> list[DeclaredOption]:
    names = {option.name for group in GROUPS.values() for option in options_in(group)}
    return [option for option in run.params if isinstance(option, DeclaredOption) and option.name in names]


@given(
    st.lists(TEXT, min_size=1).map(tuple),
    st.fixed_dictionaries(
        {}, optional={option.declared.variable: values_of(option) for option in options_of_a_request()}
    ),
)
def test_request_survives_the_way_through_a_command_line(
    command: tuple[str, ...], environ: dict[str, str]
) -> None:
    request = build_request(read_command(command), parsed(["x"], environ))
    values = parsed(list(as_options(request)), as_variables(request))
    assert values["command"] == command
    assert build_request(read_command(command), values) == request


@pytest.mark.parametrize(
    ("words", "options", "rendezvous", "starts_ray"),
    [
        ("torchrun t.py", [], "launcher", False),
        ("ray start --head --block", [], "launcher", True),
        ("python t.py", [], "rank-table", False),
        ("python t.py", ["--per-node"], "launcher", False),
        ("torchrun t.py", ["--rendezvous", "none"], "none", False),
        ("torchrun t.py", ["--per-device"], "rank-table", False),
    ],
)
def test_rendezvous_follows_from_the_command(
    words: str, options: list[str], rendezvous: str, starts_ray: bool
) -> None:
    command = read_command(words.split())
    request = build_request(command, parsed([*options, "--", *command.words], {}))
    assert request.launch.rendezvous == rendezvous
    assert request.command.starts_ray == starts_ray


@pytest.mark.parametrize("code", ["ray start --head", "torchrun t.py; ray start --head", "torchrun t.py"])
def test_a_script_with_ray_is_marked(code: str) -> None:
    command = read_command(["bash", "-c", code])
    script = read_start_script(command, "/", "/")
    request = build_request(command, parsed(["x"], {}), script)
    assert request.launch.per_node
    assert request.command.starts_ray == ("ray" in code)


def test_every_option_of_a_request_is_an_option_of_the_command() -> None:
    options = {option.name for option in run.params}
    names = [option.name for group in GROUPS.values() for option in options_in(group)]
    assert set(names) <= options
    assert len(names) == len(set(names))


def test_boot_command_has_only_changed_options_and_no_secret() -> None:
    request = build_request(
        read_command(["train.py", "--lr", "0.1", "--token", "abc"]),
        parsed(["--stop-timeout", "5", "x.py"], {}),
    )
    remember_secrets({"MY_SECRET": "planted-0815"}, afresh=True)
    assert boot_command(request) == "ma_boot --stop-timeout 5.0 train.py --lr 0.1 --token '******'"
    ranks = request.ranks._replace(host_nic_ip="planted-0815", product="a3")
    of_variables = "MABOOT_HOST_NIC_IP='******' MABOOT_PRODUCT=a3 ma_boot --stop-timeout 5.0"
    assert boot_command(request._replace(ranks=ranks)).startswith(of_variables)
    assert boot_command(request._replace(ranks=ranks), replaces_shell=True).startswith(
        "MABOOT_HOST_NIC_IP='******' MABOOT_PRODUCT=a3 exec ma_boot --stop-timeout 5.0"
    )
    assert command_text(["--local", "train.py", "planted-0815"]) == "ma_boot --local train.py '******'"
