"""The plan of a rehearsal in containers: names, addresses, mounts, variables, limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace

import pytest
from docker import DockerClient
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.containers.container_plan import (
    ContainerPlan,
    job_on_network,
    own_obs,
    plan_node,
    plan_obs,
    run_labels,
)
from ma_boot.desk.rehearsal.containers.engine_calls import JobContainers
from ma_boot.desk.rehearsal.platform.simulated_job import (
    CODE_DIRECTORY,
    DIRECTORIES,
    SIMULATED,
    SimulatedJob,
    rank_table,
)
from ma_boot.errors import ConfigError
from ma_boot.node.rehearsal_options import ContainerOptions
from ma_boot.platform.modelarts.job import read_job
from ma_boot.platform.rank_table import convert, own_pod, parse

JOB = SimulatedJob("12345678-90ab", "/laptop/ma-job-12345678", nodes=3, devices_per_node=2)
OPTIONS = ContainerOptions(
    "training:1", memory=3 << 30, shm_size=1 << 30, boot_shell="none", boot_prefix=None, keep=False
)
INSIDE = job_on_network(JOB, "172.20.0.0/16")
SERVED = ("/laptop/obs", "1001:1002", "AK", "PLANTED")


def node(number: int, obs: Mapping[str, str] = {}) -> ContainerPlan:
    return plan_node(INSIDE, number, OPTIONS, ("--tee", "all", "--", "x.py"), "code", obs)


def test_a_node_has_the_platforms_user_names_and_limits() -> None:
    planned = node(1)
    assert planned.argv == ("ma_boot", "run", "--tee", "all", "--", "x.py")
    assert planned.user == "1000"
    assert planned.hostname == "modelarts-job-12345678-90ab-worker-1"
    assert planned.aliases == ("modelarts-job-12345678-90ab-worker-1.modelarts-job-12345678-90ab",)
    assert planned.address == "172.20.0.4"
    assert (planned.memory, planned.shm_size) == (3 << 30, 1 << 30)


@pytest.mark.parametrize(
    ("shell", "prefix", "argv"),
    [
        ("bash", None, ("bash", "-c", "ma_boot run --tee all -- x.py 'a b'")),
        ("sh", "cd code && exec", ("sh", "-c", "cd code && exec ma_boot run --tee all -- x.py 'a b'")),
        ("none", "A=1", ("sh", "-c", "A=1 ma_boot run --tee all -- x.py 'a b'")),
    ],
)
def test_a_shell_may_start_the_boot_command(shell: str, prefix: str | None, argv: tuple[str, ...]) -> None:
    options = OPTIONS._replace(boot_shell=shell, boot_prefix=prefix)
    words = ("--tee", "all", "--", "x.py", "a b")
    assert plan_node(INSIDE, 0, options, words, "code", {}).argv == argv


def test_a_nodes_directories_are_the_sandboxs() -> None:
    mounts = node(2).mounts
    assert mounts == {path: JOB.sandbox_root(2) + path for path in DIRECTORIES}
    assert mounts["/cache"] == "/laptop/ma-job-12345678/node-2/cache"
    assert "/home/ma-user/modelarts" not in mounts  # that of the image stays as it is


@pytest.mark.parametrize("platform", SIMULATED)
def test_a_node_finds_itself_and_the_others(platform: str) -> None:
    inside = job_on_network(replace(JOB, platform=platform, machine="job-12345678"), "172.20.0.0/16")
    table = convert(parse(rank_table(inside)))
    plans = [plan_node(inside, number, OPTIONS, (), "code", {}) for number in range(JOB.nodes)]
    for number, plan in enumerate(plans):
        job = read_job(plan.environ, plan.hostname)
        assert (job.platform.name, job.node_rank, job.node_count) == (platform, number, JOB.nodes)
        assert plan.hostname == f"{inside.log_name}-worker-{number}"
        pod = own_pod(table, job.identity)
        assert [device.rank for device in pod.devices] == [2 * number, 2 * number + 1]
        assert job.place.table == f"/user/config/{inside.table_name}"
        if platform == "modelarts":
            assert pod.server_id == plan.address
            assert job.place.hosts == tuple(other.aliases[0] for other in plans)
            assert (job.home, plan.environ["WORKSPACE"]) == ("/home/ma-user", f"{CODE_DIRECTORY}/code")


def test_a_node_gets_no_variable_of_this_machine_but_those_of_obs() -> None:
    outside = {"PATH": "/laptop/bin", "OBS_ENDPOINT": "https://obs", "OBS_SECURITY_TOKEN": "", "HOME": "/me"}
    assert own_obs(outside) == {"OBS_ENDPOINT": "https://obs"}
    environ = node(0, own_obs(outside)).environ
    assert environ["OBS_ENDPOINT"] == "https://obs"
    assert [name for name in ("HOME", "PATH") if name in environ] == []  # those of the image


def test_nodes_know_each_other_by_the_token_of_the_job() -> None:
    """As in a rehearsal without containers: else they would not tell each other of failures and hangs."""
    inside = job_on_network(replace(JOB, token="PLANTED"), "172.20.0.0/16")
    planned = plan_node(inside, 1, OPTIONS, (), "code", {})
    assert planned.environ["MABOOT_JOB_TOKEN"] == "PLANTED"
    assert "PLANTED" not in f"{planned}"


def test_obs_is_served_as_the_directorys_user_on_an_address_that_no_node_has() -> None:
    planned = plan_obs(INSIDE, "training:1", *SERVED)
    assert planned.environ["OBS_ENDPOINT"] == f"http://{planned.address}:9000"
    assert (planned.user, dict(planned.mounts)) == ("1001:1002", {"/obs": "/laptop/obs"})
    assert planned.address not in {node(number).address for number in range(JOB.nodes)}
    assert planned.labels == node(0).labels == run_labels(JOB)


def test_no_plan_shows_a_secret() -> None:
    planned = plan_obs(INSIDE, "training:1", *SERVED)
    assert "PLANTED" not in f"{planned} {node(0, planned.environ)}"


@given(st.integers(1, 1024), st.sampled_from(["172.18.0.0/16", "192.168.16.0/20", "10.5.0.0/24"]))
def test_every_container_has_an_address_of_its_own_in_the_network(nodes: int, subnet: str) -> None:
    job = SimulatedJob("1", "/r", nodes, 1)
    network = ipaddress.ip_network(subnet)
    if nodes + 4 > network.num_addresses:
        with pytest.raises(ConfigError, match="has only"):
            job_on_network(job, subnet)
        return
    inside = job_on_network(job, subnet)
    addresses = {ipaddress.ip_address(inside.address(number)) for number in range(nodes)}
    assert len(addresses) == nodes
    assert all(address in network for address in addresses)
    assert not addresses & {network[0], network[1], network[2], network[-1]}


def test_the_note_names_every_kept_container() -> None:
    nodes = tuple(node(number) for number in range(JOB.nodes))
    obs = plan_obs(INSIDE, "training:1", *SERVED)
    remove = JobContainers(DockerClient(version="1.41"), INSIDE, nodes, obs).kept_note().splitlines()[-1]
    assert all(plan.name in remove for plan in (*nodes, obs))
    assert remove.endswith(f"docker network rm {obs.network}")
