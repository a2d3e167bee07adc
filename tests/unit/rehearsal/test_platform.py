"""The simulated platforms: what each node sees, the states of the rank table, and the code directory."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.platform.code_directory import (
    code_directory,
    code_files,
    command_in,
    copy_code,
    mark_as_obs,
    remove_copy,
)
from ma_boot.desk.rehearsal.platform.simulated_job import (
    PRODUCT,
    SIMULATED,
    SimulatedJob,
    StartCounts,
    first_start,
    node_environment,
    rank_table,
    rescheduled,
)
from ma_boot.desk.rehearsal.platform.table_writes import writes
from ma_boot.errors import CannotCreate, CommandNotFound, ConfigError
from ma_boot.node.environment.command_words import read_command
from ma_boot.platform.modelarts.job import JobEnvironment, read_job
from ma_boot.platform.rank_table import (
    WRITERS,
    NotYet,
    completed_document,
    convert,
    errors,
    own_pod,
    parse,
    validate,
)

JOB = SimulatedJob("1234", "/sandbox", nodes=3, devices_per_node=2)
DOCUMENTED = [
    "MA_HOME", "MA_JOB_DIR", "MA_MOUNT_PATH", "MA_LOG_DIR", "MA_SCRIPT_INTERPRETER", "WORKSPACE", "MA_CURRENT_IP",
    "MA_NUM_GPUS", "MA_TASK_NAME", "MA_NUM_HOSTS", "VC_TASK_INDEX", "VC_WORKER_NUM", "VC_WORKER_HOSTS",
    "MA_CURRENT_INSTANCE_NAME", "MA_SCHEDULE_CNT", "MA_PROC_START_CNT", "RANK_TABLE_FILE", "MA_VJ_NAME",
    "MA_CURRENT_HOST_IP",
]  # fmt: skip


def test_every_documented_variable_is_there() -> None:
    assert set(DOCUMENTED) <= set(node_environment(JOB, 1, "code", {}))


@pytest.mark.invariant("A rehearsal is isolated from this machine's job, and leaves nothing behind")
def test_another_jobs_variables_do_not_leak_in() -> None:
    outside = {
        "PATH": "/bin",
        "MA_LOG_DIR": "/old",
        "VC_X": "1",
        "RANK_ID": "3",
        "MABOOT_NODES": "9",
        "MAIL": "m",
    }
    environ = node_environment(JOB, 0, "code", outside)
    assert environ["MA_LOG_DIR"] == "/sandbox/node-0/home/ma-user/modelarts/log"
    assert not {"VC_X", "RANK_ID", "MABOOT_NODES"} & set(environ)
    assert (environ["PATH"], environ["MAIL"]) == ("/bin", "m")


def test_every_node_has_a_loopback_address_of_its_own() -> None:
    addresses = [JOB.address(node) for node in range(1024)]
    assert len(set(addresses)) == 1024
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("devices", range(1, 17))
def test_a_table_is_one_of_its_product(nodes: int, devices: int) -> None:
    job = SimulatedJob(JOB.uuid, "/sandbox", nodes, devices)
    assert validate(parse(rank_table(job), PRODUCT), PRODUCT) == []


def read(job: SimulatedJob, node: int, **outside: str) -> JobEnvironment:
    """The job as a node reads it."""
    return read_job(node_environment(job, node, "code", outside), "machine")


@pytest.fixture(params=SIMULATED)
def job(request: pytest.FixtureRequest) -> SimulatedJob:
    """The job on each platform."""
    return replace(JOB, platform=request.param, machine="machine")


def test_a_node_knows_itself_by_the_variables_of_its_platform(job: SimulatedJob) -> None:
    for node in range(job.nodes):
        own = read(job, node, SLURM_JOB_ID="7", MA_VJ_NAME="ma-job-other", RANK="9")
        assert own.platform.name == job.platform
        assert (own.node_rank, own.node_count, own.name) == (node, 3, job.log_name)
        assert own.place.table == str(job.table_file(node))
        assert own.log_dir == job.log_dir(node)
        of_modelarts = [name for name in node_environment(job, node, "code", {}) if name.startswith("MA_")]
        assert bool(of_modelarts) == (job.platform == "modelarts")


def test_the_states_of_the_table_are_those_of_its_writer(job: SimulatedJob) -> None:
    *before, completed = planned = writes(job, [0], 1.0)
    assert json.loads(before[0].text) == WRITERS[job.platform].before[-1]
    assert all(isinstance(completed_document(write.text), NotYet) for write in before)
    assert completed_document(completed.text) == rank_table(job)
    assert {write.swapped for write in planned} == {job.platform == "volcano"}
    assert len(before) == (1 if job.platform == "volcano" else 2)  # a ConfigMap is never torn


@given(platform=st.sampled_from(SIMULATED), moved=st.lists(st.sampled_from([None, 0, 1, 2]), max_size=6))
def test_after_any_reschedules_every_node_finds_itself_and_its_ranks(
    platform: str, moved: list[int | None]
) -> None:
    counts = first_start(JOB.nodes)
    for node in moved:
        counts = rescheduled(counts, node)
    start = replace(JOB, platform=platform, machine="machine", counts=counts)
    table = convert(parse(rank_table(start)))
    assert errors(validate(table, None)) == []
    for number in range(JOB.nodes):
        pod = own_pod(table, read(start, number).identity)
        assert [device.rank for device in pod.devices] == [2 * number, 2 * number + 1]
        assert pod.server_id == (start.uid if platform == "mindcluster" else start.address)(number)
        if platform == "modelarts":
            assert pod.name == f"ma-job-1234-worker-{number}"
        is_another = counts[number].scheduled > 1
        assert (start.uid(number) != JOB.uid(number)) == is_another
        assert (start.address(number) != JOB.address(number)) == is_another


def test_table_of_an_earlier_attempt_belongs_to_no_node(job: SimulatedJob) -> None:
    counts = (StartCounts(scheduled=50),) * job.nodes  # on machines where the job never is
    table = convert(parse(rank_table(replace(job, uuid="of-an-earlier-attempt", counts=counts))))
    for node in range(job.nodes):
        with pytest.raises(ConfigError):
            own_pod(table, read(job, node).identity)


class TestCode:
    """The code directory."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        for name in ("pkg/train.py", "pkg/data/x", ".git/HEAD", "pkg/__pycache__/train.pyc", "sandbox/huge"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(name)
        (tmp_path / "pkg" / "train.py").chmod(0o755)
        return tmp_path

    @pytest.mark.parametrize(
        ("command", "code_dir", "code", "on_node"),
        [
            ("pkg/train.py -x", None, "pkg", "/node/train.py -x"),
            ("pkg/train.py", ".", ".", "/node/pkg/train.py"),
            ("tool x.py", None, None, "tool x.py"),
            ("nice torchrun --nnodes 2 pkg/train.py pkg/train.py", None, "pkg",
             "nice torchrun --nnodes 2 /node/train.py pkg/train.py"),
            ("python -m pkg.train", None, ".", "python -m pkg.train"),
            ("python -m json.tool", None, None, "python -m json.tool"),
            ("tool what pkg/train.py", ".", ".", "tool what pkg/train.py"),  # which may be no script
        ],
    )  # fmt: skip
    def test_it_is_that_of_the_script_unless_it_is_named(
        self, project: Path, command: str, code_dir: str | None, code: str | None, on_node: str
    ) -> None:
        directory, relative = code_directory(read_command(command.split()), code_dir, str(project))
        assert directory == (None if code is None else project / code)
        assert command_in(relative, directory, "/node").words == tuple(on_node.split())

    def test_mistakes_are_named(self, project: Path) -> None:
        with pytest.raises(CommandNotFound, match="no such file"):
            code_directory(read_command(["missing.py"]), None, str(project))
        with pytest.raises(ConfigError, match="no such directory"):
            code_directory(read_command(["pkg/train.py"]), "nowhere", str(project))
        with pytest.raises(ConfigError, match="is not in --code-dir"):
            code_directory(read_command(["pkg/train.py"]), "sandbox", str(project))

    def test_files_that_are_not_code_are_not_copied(self, project: Path) -> None:
        files = code_files(project, [project / "sandbox"]).files
        assert [str(file) for file in files] == ["pkg/train.py", "pkg/data/x"]

    @pytest.mark.parametrize(
        "name",
        [
            "ma_boot-rehearsal/ma-job-0a1b2c3d/node-0/x",
            "runs/ma-job-0a1b2c3d/node-0/x",
            "env/pyvenv.cfg",
            "env/lib/x.py",
            "store/bucket/x",
            "pkg/.x.0123456789abcdef.ma_part",
            "pkg/.data.ma_sync",
        ],
    )
    def test_its_own_leftovers_are_no_code(self, project: Path, name: str) -> None:
        (project / "env").mkdir()
        (project / "env" / "pyvenv.cfg").touch()
        (project / "store").mkdir()
        mark_as_obs(project / "store")
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
        assert len(code_files(project, [project / "sandbox"]).files) == 2

    @pytest.mark.parametrize(
        ("patterns", "files"),
        [
            ("data/\n", ["pkg/train.py"]),
            ("/data/\n", ["pkg/train.py", "pkg/data/x"]),
            ("# all data\n\n*\n!*/\n!*.py\n", ["pkg/train.py"]),
            ("pkg/\n", ["pkg/train.py"]),
            ("*\n", ["pkg/train.py"]),
        ],
    )
    def test_files_that_gitignore_names_are_not_copied_except_for_the_script(
        self, project: Path, patterns: str, files: list[str]
    ) -> None:
        (project / ".gitignore").write_text(f"{patterns}.gitignore\n")
        (project / "pkg" / ".gitignore").write_text(".gitignore\n")
        found = code_files(project, [project / "sandbox"], script="pkg/train.py")
        assert [str(file) for file in found.files] == files

    def test_an_option_takes_back_what_gitignore_names(self, project: Path) -> None:
        (project / ".gitignore").write_text("data/\n")
        found = code_files(project, [project / "sandbox"], ["!data/", ".gitignore"])
        assert [str(file) for file in found.files] == ["pkg/train.py", "pkg/data/x"]
        assert code_files(project, [project / "sandbox"]).ignored == ("pkg/data/",)

    def test_the_gitignore_at_the_top_of_a_repository_counts_in_its_directories(self, project: Path) -> None:
        (project / ".gitignore").write_text("data/\n")
        assert [str(file) for file in code_files(project / "pkg", []).files] == ["train.py"]
        (project / ".gitignore").write_text("pkg/\n")
        assert [str(file) for file in code_files(project / "pkg", []).files] == ["train.py", "data/x"]
        (project / ".gitignore").write_text("data/\n")
        (project / ".git").rename(project / "git")
        assert [str(file) for file in code_files(project / "pkg", []).files] == ["train.py", "data/x"]

    def test_file_that_resembles_a_leftover_is_code(self, project: Path) -> None:
        for name in ("ma-job-manager/x", "faults-of-ours/x", "environment/x"):
            (project / name).parent.mkdir()
            (project / name).touch()
        assert len(code_files(project, [project / "sandbox"]).files) == 5

    def test_a_copy_is_as_obs_would_give_it(
        self, project: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        target = tmp_path_factory.mktemp("node") / "code"
        copy_code(project, code_files(project, [project / "sandbox"]).files, target)
        assert (target / "pkg" / "train.py").read_text() == "pkg/train.py"
        assert not (target / "pkg" / "train.py").stat().st_mode & 0o111

    def test_of_a_file_that_cannot_be_read_the_source_is_named(self, project: Path, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=rf"cannot read {project}/gone: No such file"):
            copy_code(project, [Path("gone")], tmp_path / "copy")
        (tmp_path / "file").touch()
        with pytest.raises(
            CannotCreate, match=rf"cannot copy the code to {tmp_path}/file/pkg/train.py: Not a"
        ):
            copy_code(project, [Path("pkg/train.py")], tmp_path / "file")

    def test_of_a_copy_that_is_removed_what_the_training_wrote_stays(
        self, project: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        target = tmp_path_factory.mktemp("node") / "code"
        files = code_files(project, [project / "sandbox"]).files
        copy_code(project, files, target)
        (target / "pkg" / "model").touch()
        remove_copy(files, target)
        assert [path.relative_to(target).as_posix() for path in target.rglob("*")] == ["pkg", "pkg/model"]
        assert (project / "pkg" / "train.py").exists()

    def test_more_than_the_platform_takes_is_refused(self, project: Path) -> None:
        (project / "images").mkdir()
        for number in range(1001):
            (project / "images" / f"{number}").touch()
        with pytest.raises(
            ConfigError, match=r"5 GB\); found at least 100\d files .* in images/ \(1001 files\)"
        ):
            code_files(project, [])
