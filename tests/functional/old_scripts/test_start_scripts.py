"""Commands that start ranks: started once per node if their text shows it, else detected while they run."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.functional.node import Node, template_two
from tests.functional.old_scripts.start_scripts import COMMAND, EXTENDED, GAP, START_SCRIPTS, Machine, given

# Each rank leaves its number, then goes on until SECONDS are over: a shell is there sooner than Python.
TRAIN = 'echo "$RANK_ID $DEVICE_ID $RANK_SIZE ${LOCAL_RANK-none} $PWD" > "$SEEN/$$"; sleep "${SECONDS_OF_A_RANK-0.2}"'
LOOP = f"for i in 0 1 2; do export RANK_ID=$i DEVICE_ID=$i; sh -c '{TRAIN}' & done\n"
STAYS = "30"  # longer than it takes to notice the ranks


@pytest.fixture(params=START_SCRIPTS)
def scripts(request: pytest.FixtureRequest) -> Path:
    """The directory of the start scripts."""
    return START_SCRIPTS[request.param]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with three cards, on which the code has been downloaded."""
    node = Node(tmp_path, devices=3)
    node.variables["SEEN"] = str(tmp_path / "seen")
    Path(node.variables["SEEN"]).mkdir()
    code(node).mkdir(parents=True)
    node.complete_table()
    return node


def code(node: Node) -> Path:
    return node.home / "modelarts" / "user-job-dir" / "code"


def script(node: Node, text: str, name: str = "run.sh") -> str:
    (code(node) / name).write_text(text)
    return name


def seen(node: Node) -> list[str]:
    """Returns rank, device, number of ranks, LOCAL_RANK and directory of each training."""
    return sorted(file.read_text().strip() for file in Path(node.variables["SEEN"]).iterdir())


def numbers(node: Node) -> list[str]:
    return [line.split()[0] for line in seen(node)]


class TestOncePerNode:
    @pytest.mark.parametrize(
        "command",
        [
            ("bash", "run.sh", "a", "b c"),
            ("sh", "run.sh", "a", "b c"),
            ("run.sh", "a", "b c"),
            ("bash", "-x", "run.sh", "a", "b c"),
            ("nohup", "bash", "run.sh", "a", "b c"),
        ],
        ids=" ".join,
    )
    def test_a_loop_starts_as_many_ranks_as_there_are_devices(
        self, node: Node, command: Sequence[str]
    ) -> None:
        script(node, f'echo "[$#] [$2]"\n{LOOP}wait\n')
        ended = node.boot(*command)
        assert ended.code == 0, ended.output
        assert [line.split()[:4] for line in seen(node)] == [[f"{n}", f"{n}", "3", "none"] for n in range(3)]
        assert {line.split()[4] for line in seen(node)} == {str(node.home)}
        assert "[2] [b c]" in ended.output
        assert (
            "run.sh (line 2 sets RANK_ID in a loop) starts the ranks of this node: started once "
            "(--per-device: for each device)"
        ) in ended.output

    @pytest.mark.parametrize("options", [[], ["--workdir", "code"]], ids=["shared", "code"])
    def test_script_may_change_into_its_own_directory(self, node: Node, options: list[str]) -> None:
        """MindSpore's migration guide does so by `./` and `$0`, which so cannot be an absolute path."""
        text = f'cd ./"$(dirname "$0")" || exit 9\n{LOOP}'
        ended = node.boot(*options, "bash", script(node, text))
        assert ended.code == 0, ended.output
        assert {line.split()[4] for line in seen(node)} == {str(code(node))}

    @pytest.mark.invariant(
        "A start script that starts the ranks runs once per node; ranks are never started twice, nor stopped with success"
    )
    def test_background_ranks_are_awaited(self, node: Node) -> None:
        node.variables["SECONDS_OF_A_RANK"] = "1"
        ended = node.boot("bash", script(node, f"{LOOP}echo started\n"))
        assert ended.code == 0, ended.output
        assert numbers(node) == ["0", "1", "2"]
        assert "left behind" not in ended.output

    def test_a_rank_that_fails_in_the_background_ends_the_job_with_its_code(self, node: Node) -> None:
        node.variables["SECONDS_OF_A_RANK"] = STAYS
        failing = "(sleep 0.5; exit 7) &\n"
        ended = node.boot("bash", script(node, LOOP + failing))
        assert ended.code == 7, ended.output
        assert ended.output.splitlines()[-1].startswith(
            "[ma_boot] exit code 7: command ended with exit code 7"
        )

    def test_a_stop_reaches_ranks_in_the_background(self, node: Node) -> None:
        node.variables["SECONDS_OF_A_RANK"] = STAYS
        running = node.start("bash", script(node, LOOP + "echo started\n"))
        running.until("started")
        running.signal()
        ended = running.end()
        assert ended.code == 143, ended.output

    def test_a_script_with_a_launcher_finds_the_ranks_by_itself(self, node: Node) -> None:
        ended = node.boot("bash", script(node, "if false; then torchrun train.py; fi\nenv | sort\n"))
        assert ended.code == 0, ended.output
        assert "run.sh (line 1 runs torchrun) starts the ranks" in ended.output
        assert not re.search(r"\[command\] (RANK_TABLE_FILE|RANK_ID|DEVICE_ID|LOCAL_RANK)=", ended.output)

    def test_rank_table_may_be_an_argument_of_the_script(self, node: Node) -> None:
        ended = node.boot(
            "bash", script(node, f'cat "$1" | tr -d "\\n "; echo " $2 $3"\n{LOOP}'),
            "$RANK_TABLE_FILE", "$RANK_SIZE", "${RANK_START}",
        )  # fmt: skip
        assert ended.code == 0, ended.output
        assert re.search(r'\[command\] \{.*"server_list".*\} 3 0\n', ended.output)

    def test_a_loop_over_the_ranks_of_the_node_starts_each_once(self, node: Node) -> None:
        """As MindFormers' scripts, which take the first rank and the first rank of the next node."""
        loop = f"for((i=$1;i<$2;i++)); do export RANK_ID=$i DEVICE_ID=$i; sh -c '{TRAIN}' & done\n"
        ended = node.boot("bash", script(node, loop), "$RANK_START", "$RANK_END")
        assert ended.code == 0, ended.output
        assert numbers(node) == ["0", "1", "2"]

    @pytest.mark.parametrize("words", [("bash", "-c"), ("nohup", "sh", "-ec")], ids=" ".join)
    def test_code_of_a_shell_with_a_launcher_runs_once(self, node: Node, words: Sequence[str]) -> None:
        ended = node.boot(*words, "if false; then torchrun train.py; fi; echo $NNODES nodes")
        assert ended.code == 0, ended.output
        assert ended.output.count("] 1 nodes\n") == 1
        assert "bash -c (line 1 runs torchrun) starts the ranks" in ended.output

    def test_a_script_with_ray_runs_once(self, node: Node) -> None:
        text = 'if [ "$NODE_RANK" = 0 ]; then\n  echo started\nelse\n  ray start --address=$MASTER_ADDR:6379\nfi\n'
        ended = node.boot("bash", script(node, text))
        assert ended.code == 0, ended.output
        assert ended.output.count("] started\n") == 1
        assert "run.sh (line 4 runs ray start) starts the ranks" in ended.output

    def test_explicit_options_override_recognised_launchers(self, node: Node) -> None:
        text = f"if [ -z $RANK_ID ]; then {LOOP}else sh -c '{TRAIN}'; fi"
        assert node.boot("--per-device", "bash", script(node, text)).code == 0
        assert [line.split()[3] for line in seen(node)] == ["0", "1", "2"]  # LOCAL_RANK

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--per-node", "--per-device"], "--per-node, --per-device: give one of them"),
            (
                ["--bind-cores", "equal"],
                "--bind-cores: with run.sh (line 1 sets RANK_ID in a loop), ma_boot does not start a process "
                "per device (--per-device: it does)",
            ),
        ],
    )
    def test_conflicting_options_of_a_launcher_are_rejected(
        self, node: Node, options: list[str], message: str
    ) -> None:
        ended = node.boot(*options, "bash", script(node, LOOP))
        assert ended.code == 64
        assert message in ended.output


NESTED: dict[str, tuple[str, ...]] = {
    "sourced": ("bash", "outer.sh"),
    "left behind": ("bash", "leaves.sh"),
    "Python": ("start.py",),
    "make": ("make", "-f", "Makefile"),
}
START_PY = f"""
import os, subprocess
ranks = [
    subprocess.Popen(["sh", "-c", {TRAIN!r}], env=dict(os.environ, RANK_ID=str(i), DEVICE_ID=str(i)))
    for i in range(3)
]
raise SystemExit(max(rank.wait() for rank in ranks))
"""


class TestStartedTwice:
    @pytest.fixture(autouse=True)
    def files(self, node: Node) -> None:
        for name, text in {
            "run.sh": LOOP, "outer.sh": "source ./run.sh\nwait\n", "leaves.sh": "source ./run.sh\n",
            "start.py": START_PY, "Makefile": "all:\n\tbash outer.sh\n",
        }.items():  # fmt: skip
            (node.home / name).write_text(text)

    @pytest.mark.invariant(
        "A start script that starts the ranks runs once per node; ranks are never started twice, nor stopped with success"
    )
    @pytest.mark.parametrize("kind", NESTED)
    def test_ranks_that_start_ranks_end_the_job(self, node: Node, kind: str) -> None:
        node.variables["SECONDS_OF_A_RANK"] = STAYS
        ended = node.boot(*NESTED[kind])
        assert ended.code == 78, ended.output
        assert re.fullmatch(
            r"\[ma_boot\] exit code 78: COMMAND starts the ranks itself, and was started for each of 3 ranks: "
            r"each has processes with RANK_ID \d, \d(, \d)?; start it once per node: --per-node --rendezvous "
            r"rank-table \(or, if this is meant, --per-device\)",
            ended.output.splitlines()[-1],
        )

    @pytest.mark.parametrize("kind", NESTED)
    def test_named_remedy_starts_each_rank_once(self, node: Node, kind: str) -> None:
        node.variables["SECONDS_OF_A_RANK"] = "1"
        ended = node.boot("--per-node", "--rendezvous", "rank-table", *NESTED[kind])
        assert ended.code == 0, ended.output
        assert numbers(node) == ["0", "1", "2"]

    @pytest.mark.parametrize(
        "work",
        [
            "sh -c 'sleep 3; true' & sh -c 'sleep 3; true' &",  # as data loaders inherit all
            "env -u RANK_ID -u DEVICE_ID sleep 3 & sleep 3 &",
            "sleep 3 & RANK_ID=0 DEVICE_ID=0 RANK_SIZE=1 sleep 3 &",  # an evaluation
            "sleep 3 & DEVICE_ID=$((DEVICE_ID + 4)) sleep 3 & RANK_ID=$((RANK_ID + 8)) sleep 3 &",
            "LOCAL_RANK= sleep 3 & LOCAL_RANK=x sleep 3 &",
        ],
    )
    def test_ranks_with_children_of_their_own_raise_no_alarm(self, node: Node, work: str) -> None:
        ended = node.boot("bash", script(node, f"{work}\nwait\n"))
        assert ended.code == 0, ended.output

    def test_explicit_option_disables_the_check_for_double_starts(self, node: Node) -> None:
        node.variables["SECONDS_OF_A_RANK"] = "2"
        assert node.boot("--per-device", "start.py").code == 0
        assert len(seen(node)) == 9


# The start scripts as they stand: their directory in the project, and their arguments.
AS_THEY_STAND: dict[str, tuple[str, ...]] = {
    "run.sh": (".", "/path/dataset", "2"),
    "run_cluster.sh": (".", "/path/dataset", "{table}", "16", "{start}"),
    "run_distributed_ascend.sh": (".", "{table}", "2", "0", "4"),
    "run_distribution_ascend.sh": ("scripts", "2", "0", "{table}", "{root}/config.yaml"),
    "run_distribution_mpirun.sh": ("scripts", "2", "{root}/config.yaml"),
}
ADDED = (  # by ma_boot
    r"MABOOT_|PET_|MA_|PYTHON(UNBUFFERED|FAULTHANDLER)$|HCCL_CONNECT_TIMEOUT$|RANK_(START|END)$|ASCEND_"
    r"|MASTER_(ADDR|PORT)$|NNODES$|NODE_RANK$|NPROC_PER_NODE$"
)


@pytest.mark.invariant(
    "A start script that starts the ranks runs once per node; ranks are never started twice, nor stopped with success"
)
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("where", ["code", "shared"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.openmpi] if "mpirun" in name else []) for name in AS_THEY_STAND],
)
def test_unchanged_script_gets_the_environment_of_a_manual_start(
    scripts: Path, tmp_path: Path, name: str, where: str, nodes: int
) -> None:
    """`run_cluster.sh` alone supports several nodes; the others train on each node separately, which is an error."""
    devices = 8 if name == "run_cluster.sh" else 2
    directory, *arguments = AS_THEY_STAND[name]
    for number in range(nodes):
        by_hand, booted = (Machine(tmp_path / f"{way}-{number}", (devices,)) for way in ("hand", "boot"))
        hand, boot = (
            [
                word.format(root=machine.root, table=machine.table, start=number * devices)
                for word in arguments
            ]
            for machine in (by_hand, booted)
        )
        original = by_hand.run_script(
            scripts / name, *hand, directory=directory, more=by_hand.light_pytest(), ranks=devices
        )
        variables = {**booted.light_pytest(), **platform(booted, number, nodes, devices)}
        if name != "run_cluster.sh":
            variables["MABOOT_SCRIPT_RANKS"] = "report"
        target = booted.root / directory / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((scripts / name).read_text().replace(GAP, COMMAND))
        started, options = booted.root, []
        if where == "code":  # the platform starts ma_boot in the home
            started, options = booted.root / "home", ["--workdir", "code"]
        line = shlex.join(["ma_boot", *options, "bash", os.path.relpath(target, started), *boot])
        replaced = booted.run_line(f"cd {started} && {line}", variables, devices)
        assert len(replaced) == devices
        assert [cwd for cwd in booted.cwds if cwd not in by_hand.cwds] == []
        for by_script, by_line in zip(original, replaced):
            wanted = {key: value for key, value in given(by_script).items() if key not in EXTENDED}
            assert {key: by_line.get(key) for key in wanted} == wanted
            more = given(by_line).keys() - wanted.keys() - variables.keys() - set(EXTENDED)
            assert {key for key in more if not re.match(ADDED, key)} == set()


def platform(machine: Machine, number: int, nodes: int, devices: int) -> dict[str, str]:
    """Makes the machine a node of a job on the platform; returns its variables."""
    config = machine.root / "user-config"
    config.mkdir()
    (config / "jobstart_hccl.json").write_text(json.dumps(template_two(nodes, devices)))
    return {
        "MA_VJ_NAME": "ma-job-test", "MA_NUM_GPUS": str(devices), "MA_NUM_HOSTS": str(nodes),
        "VC_TASK_INDEX": str(number), "VC_WORKER_HOSTS": ",".join(["localhost", "127.0.0.2"][:nodes]),
        "MA_HOME": str(machine.root / "home"), "RANK_TABLE_FILE": str(config),
        "MA_CURRENT_INSTANCE_NAME": f"modelarts-job-test-worker-{number}",
    }  # fmt: skip
