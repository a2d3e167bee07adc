"""Manifests for clusters: their fields, and what Kubernetes' own schemas say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import example, given, strategies as st

from ma_boot.desk.job.job_file import parse_job
from ma_boot.desk.job.manifest import CLUSTERS, PodJob, as_yaml, documents, manifest_problems
from ma_boot.errors import ExitCode
from path_mapping.mapping.routes import ObsUrl
from tests.requirement import unavailable

JOB = """\
name: first
image: swr.cn-north-4.myhuaweicloud.com/vision/resnet:1
command: train.py --epochs 90
options: {tee: first}
nodes: 2
devices-per-node: 8
inputs: {data_url: obs://bucket/data/}
outputs: {"train_url@env": obs://bucket/out/}
parameters: {lr: 0.10, cost: "$(PRICE)$$HOME$"}
environment: {GREETING: "$(HELLO)"}
secrets: [OBS_ACCESS_KEY_ID]
retries: 3
time-limit: 2h
"""
# What Volcano's own definition of a Job says (volcano-sh/volcano, batch.volcano.sh_jobs.yaml) of the fields that we write.
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
COUNT = {"type": "integer", "minimum": 0}
EVENTS = ["*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync"]


def only(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
VOLCANO = only(
    apiVersion={"const": "batch.volcano.sh/v1alpha1"},
    kind={"const": "Job"},
    metadata={**only(name=NAME, namespace=NAME, labels=TEXTS, annotations=TEXTS), "required": ["name"]},
    spec=only(
        schedulerName={"type": "string", "maxLength": 63},
        queue=NAME,
        minAvailable=COUNT,
        maxRetry=COUNT,
        policies={
            "type": "array",
            "items": only(event={"enum": EVENTS}, exitCode=COUNT, action={"type": "string"}),
        },
        plugins={"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        tasks={
            "type": "array",
            "items": only(
                name=NAME, replicas=COUNT, template=only(metadata=only(labels=TEXTS), spec={"type": "object"})
            ),
        },
    ),
)


def made(platform: str, text: str = JOB, **changes: Any) -> list[dict[str, Any]]:
    """The documents, as a reader of the YAML finds them."""
    job, problems = parse_job(text)
    assert [*problems, *manifest_problems(job)] == []
    pods = PodJob(
        job=job,
        image=job.image,
        options=job.options,
        command=job.command,
        code=(ObsUrl("bucket", "jobs/first/src/"), "src"),
        grace=645,
        secret="first-secrets",
        obs_endpoint="https://obs.cn-north-4.myhuaweicloud.com",
    )
    return list(yaml.safe_load_all(as_yaml(documents(replace(pods, **changes), CLUSTERS[platform]))))


def pod_of(manifest: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = manifest[-1]["spec"]["tasks"][0]["template"]["spec"]
    return spec


VARIANTS = {
    "whole": {},
    "image-has-code": {"code": None, "text": JOB.partition("inputs")[0]},
    "names": {"namespace": "team", "pull_secret": "default-secret"},
}


@pytest.mark.parametrize("platform", sorted(CLUSTERS))
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_kubernetes_schemas_accept_it(platform: str, variant: str) -> None:
    """Pod and ConfigMap by the schemas of several releases, in which no field may be unknown."""
    try:
        import jsonschema
        import kubernetes_validate
    except ImportError:
        unavailable("kubernetes-validate is not installed")
    *maps, job = made(platform, **VARIANTS[variant])  # type: ignore[arg-type]  # of one of several kinds
    jsonschema.validate(job, VOLCANO)
    template = job["spec"]["tasks"][0]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "x"}}
    for release in ("1.25", "1.28", "1.31"):
        for document in (*maps, pod):
            kubernetes_validate.validate(document, release, strict=True)
    wrong = {**pod, "spec": {**pod["spec"], "terminationGracePeriod": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**job, "spec": {**job["spec"], "retries": 1}}, VOLCANO)


@pytest.mark.parametrize(
    ("platform", "config_map", "path", "resource"),
    [
        ("volcano", "configmap1980-first", "/user/config/jobstart_hccl.json", "huawei.com/ascend-1980"),
        (
            "mindcluster",
            "rings-config-first",
            "/user/serverid/devindex/config/hccl.json",
            "huawei.com/Ascend910",
        ),
    ],
)
def test_the_rank_table_is_where_the_controller_writes_it(
    platform: str, config_map: str, path: str, resource: str
) -> None:
    table, _, job = made(platform)
    directory, _, key = path.rpartition("/")
    assert (table["metadata"]["name"], [*table["data"]]) == (config_map, [key])
    assert table["metadata"]["labels"] == job["metadata"]["labels"]
    pod = pod_of([job])
    volume = next(volume for volume in pod["volumes"] if volume.get("configMap") == {"name": config_map})
    container = pod["containers"][0]
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == volume["name"])
    assert mount == {"name": volume["name"], "mountPath": directory}, "a subPath would never be updated"
    assert {"name": "RANK_TABLE_FILE", "value": path} in container["env"]
    assert container["resources"]["limits"] == {resource: 8}


def test_the_words_are_those_of_the_boot_command_with_what_modelarts_would_append() -> None:
    manifest = made("volcano")
    container = pod_of(manifest)["containers"][0]
    assert container["command"] == [
        *("timeout", "--foreground", "--preserve-status", "--signal=XCPU", "2h"),
        *("ma_boot", "--tee=first", "--path-mapping=/user/ma_boot/path_mapping.yaml"),
        *("train.py", "--epochs", "90", "--data_url=/home/ma-user/modelarts/inputs/data_url_0"),
        *("--lr=0.10", "--cost=$$(PRICE)$$$$HOME$$"),
    ]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["train_url"] == "/home/ma-user/modelarts/outputs/train_url_0"
    assert variables["GREETING"] == "$$(HELLO)", "Kubernetes would expand it"
    secret = {"secretKeyRef": {"name": "first-secrets", "key": "OBS_ACCESS_KEY_ID"}}
    assert {"name": "OBS_ACCESS_KEY_ID", "valueFrom": secret} in container["env"]
    mapping = yaml.safe_load(manifest[1]["data"]["path_mapping.yaml"])
    assert mapping["input"] == {"/home/ma-user/modelarts/inputs/data_url_0": "obs://bucket/data/"}
    code = yaml.safe_load(manifest[1]["data"]["code.yaml"])
    assert code == {"input": {"/home/ma-user/modelarts/user-job-dir/src": "obs://bucket/jobs/first/src/"}}


def test_several_nodes_get_the_job_token_from_a_secret_of_its_own() -> None:
    """A manifest is printed and kept in files: it has no token, and the code's container has no need of one."""
    of_secret = {"secretKeyRef": {"name": "first-job-token", "key": "MABOOT_JOB_TOKEN"}}
    token = {"name": "MABOOT_JOB_TOKEN", "valueFrom": of_secret}
    pod = pod_of(made("volcano"))
    assert token in pod["containers"][0]["env"]
    assert token not in pod["initContainers"][0]["env"]
    for text in (
        JOB.replace("nodes: 2", "nodes: 1"),
        JOB.replace("secrets: [", "secrets: [MABOOT_JOB_TOKEN, "),
    ):
        env = pod_of(made("volcano", text))["containers"][0]["env"]
        assert not [row for row in env if row.get("valueFrom") == of_secret]


def test_user_time_limit_and_restart_policy_of_the_pods() -> None:
    manifest = made("mindcluster")
    spec, pod = manifest[-1]["spec"], pod_of(manifest)
    assert pod["terminationGracePeriodSeconds"] == 645
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["supplementalGroups"]) == (
        1000,
        [1000],
    )
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"]) == (2, 2)
    assert spec["maxRetry"] == 4, "the controller fails a job whose restarts are as many"
    actions = [(policy.get("event", policy.get("exitCode")), policy["action"]) for policy in spec["policies"]]
    restarts = [("PodFailed", "RestartJob"), ("PodEvicted", "RestartJob")]
    assert actions == [(152, "TerminateJob"), *restarts], "the first that fits counts; 124 is a hang"
    once = made("mindcluster", JOB.replace("retries: 3", "retries: 0"))[-1]["spec"]
    assert {policy["action"] for policy in once["policies"]} == {"TerminateJob"}
    assert "maxRetry" not in once, "Volcano takes 0 for its default of 3"


def test_failure_that_a_restart_may_cure_is_not_taken_for_the_time_limit() -> None:
    policies = made("volcano")[-1]["spec"]["policies"]
    ends = {policy["exitCode"] for policy in policies if "exitCode" in policy}
    assert ends
    assert not ends & {*ExitCode, 124, 1, *(128 + signal for signal in (2, 6, 9, 11, 15))}


def test_pod_requests_cards_and_driver_of_its_server() -> None:
    pod = pod_of(made("volcano"))
    requests = pod["containers"][0]["resources"]["requests"]
    assert requests == {"huawei.com/ascend-1980": 8, "cpu": "64", "memory": "256Gi"}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "128Gi"}
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["driver"]["readOnly"] is True
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"volcano.sh/job-name": "first"}}
    assert term["topologyKey"] == "kubernetes.io/hostname"


def test_mindclusters_scheduler_learns_the_kind_of_server() -> None:
    (*_, job) = made("mindcluster", schedule_policy="chip8-node8")
    assert job["metadata"]["annotations"] == {"huawei.com/schedule_policy": "chip8-node8"}


MORE = """\
manifest:
  metadata: {annotations: {team: vision}}
  spec:
    queue: vision
    tasks:
      - name: worker
        template:
          spec:
            nodeSelector: {zone: a}
            affinity: null
            containers: [{name: training, resources: {requests: {cpu: 96}}}]
            volumes: [{name: data, hostPath: {path: /data}}]
"""


def test_everything_else_is_merged_into_the_job_lists_by_their_names() -> None:
    job = made("volcano", JOB + MORE)[-1]
    assert (job["spec"]["queue"], job["metadata"]["annotations"]) == ("vision", {"team": "vision"})
    pod = pod_of([job])
    assert (pod["nodeSelector"], "affinity" in pod) == ({"zone": "a"}, False)
    requests = pod["containers"][0]["resources"]["requests"]
    assert requests == {"huawei.com/ascend-1980": 8, "cpu": 96, "memory": "256Gi"}
    assert [volume["name"] for volume in pod["volumes"]][-1] == "data"
    assert len(job["spec"]["tasks"]) == 1


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
@example("1e-4")
@example("08")
@example("y")
@example("Null")
@example("5e-05\nN")
@example(" a\n\x85b\u2028")
def test_every_string_is_one_for_each_reader_of_yaml(text: str) -> None:
    """Kubernetes reads YAML 1.1 with more numbers and booleans than PyYAML: nothing but keys is plain."""
    document = {"value": [text, "x"], "env": {"name": text, text: "y"}}
    written = as_yaml([document])
    assert yaml.safe_load(written) == document
    scalars = [event for event in yaml.parse(written, yaml.SafeLoader) if isinstance(event, yaml.ScalarEvent)]
    words = {"value", "env", "name"}
    assert words <= {event.value for event in scalars if not event.style} <= {*words, text}
    try:
        from ruamel.yaml import YAML
    except ImportError:
        unavailable("ruamel.yaml is not installed")
    assert YAML(typ="safe", pure=True).load(written) == document


def test_values_that_a_cluster_rejects_are_reported_together() -> None:
    job, _ = parse_job("name: A_b\noptions: {path-mapping: x}\ninputs: {data: obs://bucket/x}\n")
    assert [str(problem) for problem in manifest_problems(job)] == [
        "line 1: name: found 'A_b', expected 1 to 51 lower-case letters, digits and -, beginning with a "
        "letter, as Kubernetes has it",
        "image: missing",
        "command: missing",
        "line 3: inputs: data: on a cluster a path mapping has inputs and outputs: put them into that of "
        "`options`",
    ]
