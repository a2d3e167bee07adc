"""The manifest of a job for a cluster with Volcano, as documents of YAML. Pure.

Both platforms run a Job of Volcano (`batch.volcano.sh/v1alpha1`) and write the rank table into a ConfigMap
that the user makes: on ModelArts Lite Cluster and CCE the plugin configmap1980 does it (the manual of Lite
Cluster, "training by vcjob"), on MindCluster the ascend-operator (Ascend/mindcluster-deploy, samples/train).
The services of ModelArts Standard are replaced: an init container downloads the code, and a path mapping
moves the inputs and outputs.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ma_boot.desk.job.job_file import JobFile, merged
from ma_boot.desk.job.readers import PLAIN, JobChannel, JobProblem
from ma_boot.desk.job.request import boot_words
from ma_boot.platform.modelarts.job import JOB_TOKEN
from path_mapping.mapping.routes import ObsUrl

HOME = "/home/ma-user"
CODE = f"{HOME}/modelarts/user-job-dir"
FILES = "/user/ma_boot"
USER, GROUP = 1000, 100  # ma-user and ma-group of the image, as on ModelArts
# Group HwHiAiUser, which may open /dev/davinci* (MindCluster's manual).
DEVICE_GROUP = 1000
# Seconds between two uploads of an output, as on ModelArts.
PERIOD_SECONDS = 30
# The host name `NAME-worker-1023` has at most 63 characters.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,49}[a-z0-9])?")
_SHELL = "/bin/sh"
# Signal of `timeout` at the limit, as batch systems send it, and ma_boot's exit code after it. The usual 124
# is that of a hang, too, after which a job with retries must start again.
_LIMIT_SIGNAL = signal.SIGXCPU
_TIMED_OUT = 128 + _LIMIT_SIGNAL
# For each card of a pod. A pod without requests is evicted first, and /dev/shm is memory.
_CPU, _MEMORY, _SHARED_MEMORY = 8, 32, 16  # the last two in GiB
SCHEDULE_POLICY = "huawei.com/schedule_policy"
# Without one, the scheduler takes rings of 4 cards (ascend-for-volcano, npu/factory.go)
SCHEDULE_POLICIES = {
    "chip4-node8": "Atlas 800 (9000, 9010)",
    "chip4-node4": "half an Atlas 800",
    "chip1-node2": "Atlas 300T",
    "chip8-node8": "Atlas 800T A2, Atlas 850",
    "chip8-node16": "Atlas 200T A2 Box16",
    "chip2-node8": "8 chips of an A3",
    "chip2-node16": "Atlas 800T A3",
    "chip2-node8-sp": "Atlas 9000 A3 SuperPoD",
    "chip2-node16-sp": "Atlas 900 A3 SuperPoD",
}


class Cluster(NamedTuple):
    """Names that the controllers of a platform look for."""

    config_map: str  # its name, before that of the job
    label: tuple[str, str]
    key: str  # of the rank table in the ConfigMap
    mount: str
    resource: str  # the NPUs
    host: str  # the variable of the server's address
    plugins: tuple[tuple[str, tuple[str, ...]], ...]
    annotated: bool = False  # a pod's annotation has its cards, for the container runtime of Ascend


_PLUGINS = (("env", ()), ("svc", ("--publish-not-ready-addresses=true",)))
CLUSTERS = {
    "volcano": Cluster(
        config_map="configmap1980-",
        label=("ring-controller.cce", "ascend-1980"),
        key="jobstart_hccl.json",
        mount="/user/config",
        resource="huawei.com/ascend-1980",
        host="HOST_IP",
        plugins=(("configmap1980", ("--rank-table-version=v2",)), *_PLUGINS),
    ),
    "mindcluster": Cluster(
        config_map="rings-config-",
        label=("ring-controller.atlas", "ascend-910b"),
        key="hccl.json",
        mount="/user/serverid/devindex/config",
        resource="huawei.com/Ascend910",
        host="XDL_IP",
        plugins=_PLUGINS,
        annotated=True,
    ),
}


@dataclass(frozen=True)
class PodJob:
    """A job in terms of pods.

    `options` and `command` are those of the boot command, with files relative to the code; `code` is the
    place of the code in OBS and the name of its directory, None if the image contains it. `grace` is the
    grace period in seconds. `secret` is the name of the Secret with the values of the job's secrets.
    """

    job: JobFile
    image: str
    options: tuple[str, ...]
    command: tuple[str, ...]
    code: tuple[ObsUrl, str] | None
    grace: int
    secret: str
    obs_endpoint: str = ""
    namespace: str = ""
    pull_secret: str = ""
    schedule_policy: str = ""


def manifest_problems(job: JobFile) -> Iterator[JobProblem]:
    """Reports settings that a cluster would reject or could not run."""
    if not _NAME.fullmatch(job.name):
        rule = "1 to 51 lower-case letters, digits and -, beginning with a letter, as Kubernetes has it"
        yield job.problem("name", f"found {job.name!r}, expected {rule}")
    for key, value in (("image", job.image), ("command", job.command)):
        if not value:
            yield job.problem(key, "missing")
    if job.has_mapping and job.channels:
        key, channel = job.channels[0]
        text = "on a cluster a path mapping has inputs and outputs: put them into that of `options`"
        yield job.problem(f"{key}: {channel.name}", text)


def documents(pods: PodJob, cluster: Cluster) -> list[dict[str, Any]]:
    """Returns the ConfigMap of the rank table, a ConfigMap of ma_boot's files if needed, and the Job."""
    job, label = pods.job, dict([cluster.label])
    table = {cluster.key: '{"status":"initializing"}\n'}
    made = [_config_map(pods, cluster.config_map + job.name, table, label)]
    files = _files(pods)
    if files:
        made.append(_config_map(pods, f"{job.name}-ma-boot", files, {}))
    spec = {
        "schedulerName": "volcano",
        "queue": "default",
        "minAvailable": job.nodes,
        "policies": _policies(job),
        "plugins": {name: list(arguments) for name, arguments in cluster.plugins},
        "tasks": [
            {
                "name": "worker",
                "replicas": job.nodes,
                "template": {"metadata": {"labels": label}, "spec": _pod(pods, cluster, bool(files))},
            }
        ],
    }
    # Volcano counts the restart before it compares with the limit (volcano ed72c7c, running.go and
    # restarting.go of pkg/controllers/job/state), and replaces 0 by 3 (mutate_job.go).
    if job.retries:
        spec["maxRetry"] = job.retries + 1
    metadata = _metadata(pods, job.name, label)
    if pods.schedule_policy:
        metadata["annotations"] = {SCHEDULE_POLICY: pods.schedule_policy}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return [*made, merged({**kind, "metadata": metadata, "spec": spec}, job.manifest, by_name=True)]


def _policies(job: JobFile) -> list[dict[str, Any]]:
    """Policies that end or restart the job; Volcano applies the first match (volcano, applyPolicies)."""
    # Never a single pod: either the ranks of all nodes run, or none.
    action = "RestartJob" if job.retries else "TerminateJob"
    policies: list[dict[str, Any]] = [
        {"event": event, "action": action} for event in ("PodFailed", "PodEvicted")
    ]
    limit = {"exitCode": _TIMED_OUT, "action": "TerminateJob"}
    return [limit, *policies] if job.retries and job.time_limit else policies


def _metadata(pods: PodJob, name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if pods.namespace:
        metadata["namespace"] = pods.namespace
    return {**metadata, "labels": labels} if labels else metadata


def _config_map(pods: PodJob, name: str, data: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return {**kind, "metadata": _metadata(pods, name, labels), "data": data}


def _files(pods: PodJob) -> dict[str, str]:
    """Path mappings: one for the code, one for inputs and outputs."""
    files: dict[str, str] = {}
    if pods.code is not None:
        url, name = pods.code
        files["code.yaml"] = as_yaml([{"input": {f"{CODE}/{name}": str(url)}}])
    inputs = {directory_of(channel, "inputs"): str(channel.url) for channel in pods.job.inputs}
    outputs = {
        directory_of(channel, "outputs"): {"obs": str(channel.url), "interval": PERIOD_SECONDS}
        for channel in pods.job.outputs
    }
    if inputs or outputs:
        both = {"input": inputs, "output": outputs}
        files["path_mapping.yaml"] = as_yaml([{kind: routes for kind, routes in both.items() if routes}])
    return files


def directory_of(channel: JobChannel, kind: str) -> str:
    """Returns the local directory of an input or output, as on ModelArts."""
    return f"{HOME}/modelarts/{kind}/{channel.name}_0"


def _pod(pods: PodJob, cluster: Cluster, files: bool) -> dict[str, Any]:
    mounts: dict[str, dict[str, Any]] = {
        name: {"name": name, "mountPath": path} for name, path, _ in _volumes(pods, cluster, files)
    }
    mounts["driver"]["readOnly"] = True
    cards = pods.job.devices_per_node
    limits = {cluster.resource: cards}
    requests = {**limits, "cpu": str(_CPU * cards), "memory": f"{_MEMORY * cards}Gi"}
    training = {
        "name": "training",
        "image": pods.image,
        "env": [*_of_the_pod(cluster), *_values(pods, cluster), *_token(pods.job)],
        "command": [_literal(word) for word in _words(pods)],
        "workingDir": HOME,
        "resources": {"requests": requests, "limits": limits},
        "readinessProbe": {  # the node has begun; that it hangs is found by --hang-timeout, not by a probe
            "exec": {"command": [_SHELL, "-c", f"ls {HOME}/modelarts/log/*-events.jsonl"]},
            "periodSeconds": 10,
        },
        "volumeMounts": list(mounts.values()),
    }
    code = {
        "name": "code",
        "image": pods.image,
        "env": _values(pods, cluster),
        "command": ["ma_boot", "sync", "download", f"{FILES}/code.yaml"],
        "volumeMounts": [mounts[name] for name in ("modelarts", "files") if name in mounts],
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": pods.grace,
        "affinity": _one_on_a_server(pods.job) if pods.job.nodes > 1 else None,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": GROUP,
            "fsGroup": GROUP,
            "supplementalGroups": [DEVICE_GROUP],
            "runAsNonRoot": True,
        },
        "imagePullSecrets": [{"name": pods.pull_secret}] if pods.pull_secret else None,
        "initContainers": [code] if pods.code else None,
        "containers": [training],
        "volumes": [{"name": name, **source} for name, _, source in _volumes(pods, cluster, files)],
    }
    return {name: value for name, value in pod.items() if value is not None}


def _one_on_a_server(job: JobFile) -> dict[str, Any]:
    """Anti-affinity: one pod per server, by the label of its job (volcano batch/v1alpha1, labels.go)."""
    selector = {"matchLabels": {"volcano.sh/job-name": job.name}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _volumes(pods: PodJob, cluster: Cluster, files: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Volumes as tuples of name, mount path and source."""
    yield "rank-table", cluster.mount, {"configMap": {"name": cluster.config_map + pods.job.name}}
    if files:
        yield "files", FILES, {"configMap": {"name": f"{pods.job.name}-ma-boot"}}
    yield "modelarts", f"{HOME}/modelarts", {"emptyDir": {}}
    # ModelArts creates the directories of outputs; here an empty volume is mounted there.
    for number, channel in enumerate(pods.job.outputs):
        yield f"output-{number}", directory_of(channel, "outputs"), {"emptyDir": {}}
    yield "cache", "/cache", {"emptyDir": {}}
    shared = {"medium": "Memory", "sizeLimit": f"{_SHARED_MEMORY * pods.job.devices_per_node}Gi"}
    yield "shared-memory", "/dev/shm", {"emptyDir": shared}
    yield "driver", "/usr/local/Ascend/driver", {"hostPath": {"path": "/usr/local/Ascend/driver"}}


def _words(pods: PodJob) -> Sequence[str]:
    """Words of the boot command, with the arguments that ModelArts would append.

    The time limit is applied by `timeout`: a pod that reaches `activeDeadlineSeconds` fails, and its job
    would be restarted.
    """
    options = ("--foreground", "--preserve-status", f"--signal={_LIMIT_SIGNAL.name[3:]}")
    limit = ["timeout", *options, f"{pods.job.time_limit}h"] if pods.job.time_limit else []
    channels = [
        f"--{channel.name}={directory_of(channel, kind)}"
        for kind, channel in pods.job.channels
        if not channel.by_variable
    ]
    mapping = [f"--path-mapping={FILES}/path_mapping.yaml"] if pods.job.channels else []
    return [*limit, *boot_words([*pods.options, *mapping], pods.command), *channels, *pods.job.arguments]


def _of_the_pod(cluster: Cluster) -> list[dict[str, Any]]:
    """Variables that identify the pod in the rank table and the start of the job."""
    fields = {cluster.host: "status.hostIP", "POD_IP": "status.podIP", "POD_UID": "metadata.uid"}
    fields["VC_JOB_RETRY_COUNT"] = "metadata.annotations['volcano.sh/job-retry-count']"
    if cluster.annotated:
        fields["ASCEND_VISIBLE_DEVICES"] = f"metadata.annotations['{cluster.resource}']"
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def _values(pods: PodJob, cluster: Cluster) -> list[dict[str, Any]]:
    """Variables that are the same in all pods: places, the job's variables, and secrets by reference."""
    plain = {"HOME": HOME, "RANK_TABLE_FILE": f"{cluster.mount}/{cluster.key}"}
    if pods.obs_endpoint:
        plain["OBS_ENDPOINT"] = pods.obs_endpoint
    for kind, channel in pods.job.channels:
        if channel.by_variable:
            plain[channel.name] = directory_of(channel, kind)
    plain.update(pods.job.variables)
    return [
        *({"name": name, "value": _literal(value)} for name, value in plain.items()),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": pods.secret, "key": name}}}
            for name in pods.job.secrets
        ),
    ]


def token_secret(job: JobFile) -> str:
    """Returns the Secret with the job token of one submission; empty if the job needs none."""
    return f"{job.name}-job-token" if job.needs_token else ""


def _token(job: JobFile) -> list[dict[str, Any]]:
    """The job token by reference: manifests are printed and kept in files, so they must not contain it."""
    reference = {"secretKeyRef": {"name": token_secret(job), "key": JOB_TOKEN}}
    return [{"name": JOB_TOKEN, "valueFrom": reference}] if job.needs_token else []


def _literal(text: str) -> str:
    """Escapes a text for Kubernetes, which expands `$(NAME)` and `$$` (expansion/expand.go)."""
    return text.replace("$", "$$")


def as_yaml(documents: Sequence[dict[str, Any]]) -> str:
    """Formats documents as YAML: block style for several lines, no anchors, and quotes around all strings but
    plain keys, since YAML readers disagree on `1e-4`, `08` and `y`."""
    import yaml  # most commands of a job print none

    class Quoted(yaml.SafeDumper):
        """Writes repeated values in full, and keys without quotes if all readers take them for strings."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
            node = super().represent_mapping(tag, mapping, flow_style)
            for key, _ in node.value:
                key.style = None if PLAIN.fullmatch(key.value) else '"'
            return node

    def text(dumper: Quoted, value: str) -> Any:
        is_block = "\n" in value and value.replace("\n", "").isprintable()
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if is_block else '"')

    Quoted.add_representer(str, text)
    return str(yaml.dump_all(documents, Dumper=Quoted, sort_keys=False, allow_unicode=True, width=110))
