"""Recognises the platform by its variables, and asks its module what it says."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ma_boot.errors import ConfigError, listed
from ma_boot.platforms import launchers, mindcluster, slurm, volcano
from ma_boot.platforms.facts import Around, Fact, Facts

_SIGNS: Dict[str, Tuple[str, ...]] = {  # a variable that ends in "_" or begins so stands for all of them
    "openmpi": ("OMPI_COMM_WORLD_SIZE",),
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "mindcluster": ("MINDX_TASK_ID", "MINDX_SERVER_IP", "XDL_IP"),
    "modelarts": (
        *("MA_VJ_NAME", "MA_NUM_HOSTS", "MA_JOB_DIR", "MA_CURRENT_INSTANCE_NAME", "MA_NUM_GPUS", "MA_HOME"),
        *("BATCH_JOB_ID", "DLS_TASK_NUMBER"),
    ),
    "volcano": ("VC_TASK_INDEX", "VK_TASK_INDEX", "VC_WORKER_NUM", "VC_WORKER_HOSTS"),
    "slurm": ("SLURM_JOB_ID",),
    "kubeflow": ("PET_NNODES", "PET_NODE_RANK"),
}
PLATFORMS = (*sorted(_SIGNS), "bare")
# What a platform may have around it, or names that YAML gives to it: not a contradiction.
_WITH: Dict[str, Tuple[str, ...]] = {
    "openmpi": ("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
    "torchrun": ("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
    "mindcluster": ("modelarts", "volcano", "kubeflow"),
    "modelarts": ("volcano", "kubeflow"),
    "volcano": ("kubeflow",),
}
_PLACES = {  # where rank tables are, if no variable says so
    "modelarts": (),
    "volcano": ("/user/config/jobstart_hccl.json",),
    "mindcluster": ("/user/serverid/devindex/config/hccl.json", "/user/config/jobstart_hccl.json"),
}


class Recognised(NamedTuple):
    """A platform and the variables by which it was recognised; `around` are platforms that it runs on."""

    name: str
    why: str
    around: Tuple[str, ...] = ()
    chosen: bool = False

    def __str__(self) -> str:
        text = f"platform {self.name}, {self.why}"
        return f"{text}, on {', '.join(self.around)}" if self.around else text


class Whereabouts(NamedTuple):
    """What the platform says about this node; `per_node` are variables of the node that the training would
    take for those of a rank."""

    platform: Recognised
    facts: Mapping[str, Fact]
    per_node: Tuple[str, ...] = ()


def recognised(environ: Mapping[str, str], chosen: Optional[str] = None) -> Recognised:
    """The platform that runs this node, `chosen` if it is given.

    Raises `ConfigError` that names both, if the variables of two platforms are set that are never together.
    """
    if chosen is not None:
        return Recognised(chosen, "by --platform", chosen=True)
    found = {
        name: [sign for sign in signs if environ.get(sign)]
        for name, signs in _SIGNS.items()
        if any(environ.get(sign) for sign in signs)
    }
    if "kubeflow" not in found and _is_old_kubeflow(environ):
        found["kubeflow"] = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "KUBERNETES_SERVICE_HOST"]
    if not found:
        return Recognised("bare", "no platform's variables are set")
    first, *others = found
    foreign = [other for other in others if other not in _WITH.get(first, ())]
    if foreign:
        raise ConfigError(
            f"two platforms at once: {first} by {', '.join(found[first][:3])}, and {foreign[0]} by "
            f"{', '.join(found[foreign[0]][:3])}; unset the variables of one, or choose with --platform"
        )
    return Recognised(first, "by " + ", ".join(found[first][:3]), tuple(others))


def _is_old_kubeflow(environ: Mapping[str, str]) -> bool:
    """A PyTorchJob of an operator that sets no `PET_*` yet."""
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "KUBERNETES_SERVICE_HOST")
    return all(environ.get(name) for name in needed) and not environ.get("LOCAL_RANK")


def whereabouts(platform: Recognised, around: Around) -> Whereabouts:
    """What the platform says, and what those around it say of the rest.

    Raises `ConfigError` with every problem: values that are no numbers, and two that contradict each other.
    """
    problems: List[str] = []
    facts: Facts = {}
    per_node: Dict[str, None] = {}
    for name in (platform.name, *platform.around):
        found, names = _of(name, around, problems)
        per_node.update(dict.fromkeys(names))
        part_only = "nodes" in facts
        for what, fact in found.items():
            if not (what == "part" and part_only):
                facts.setdefault(what, fact)
    _of_machine(platform, around, facts)
    if problems:
        raise ConfigError(
            listed(f"the variables of {platform.name} contradict each other, or are none:", problems)
        )
    return Whereabouts(platform, facts, tuple(name for name in per_node if name in around.environ))


def _of(name: str, around: Around, problems: List[str]) -> Tuple[Facts, Tuple[str, ...]]:
    """What one platform says, and its variables of the node."""
    # Each is imported where it is used: a job on ModelArts needs none of them.
    if name == "volcano":
        return volcano.facts(around, problems), volcano.per_node(around)
    if name == "mindcluster":
        return mindcluster.facts(around, problems), mindcluster.per_node(around)
    if name == "slurm":
        return slurm.facts(around, problems), ()
    if name in ("kubeflow", "torchrun", "openmpi"):
        read = {"kubeflow": launchers.kubeflow, "torchrun": launchers.torchrun, "openmpi": launchers.openmpi}
        names = launchers.of_openmpi if name == "openmpi" else launchers.of_torch
        return read[name](around, problems), names(around)
    return {}, ()


def _of_machine(platform: Recognised, around: Around, facts: Facts) -> None:
    """What the machine says where no variable does: the cards, and the place of a rank table."""
    if around.devices and "devices" not in facts:
        facts["devices"] = Fact(str(len(around.devices)), "/dev/davinci*")
    if around.given("RANK_TABLE_FILE", "RANK_TABLE_FILE_V_1_0"):
        return
    places = [place for name in (platform.name, *platform.around) for place in _PLACES.get(name, ())]
    for place in places:
        if place in around.tables:
            facts["table"] = Fact(place, "its directory exists")
            return
