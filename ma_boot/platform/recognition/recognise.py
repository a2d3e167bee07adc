"""Recognises the platform by its variables, and asks its module what it tells."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Callable, NamedTuple

from ma_boot.errors import ConfigError
from ma_boot.platform.recognition import launchers, mindcluster, modelarts, volcano
from ma_boot.platform.recognition.place import Around, NodePlace

_SIGNS: dict[str, tuple[str, ...]] = {
    "openmpi": ("OMPI_COMM_WORLD_SIZE",),
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "mindcluster": ("MINDX_TASK_ID", "MINDX_SERVER_IP", "XDL_IP"),
    "slurm": ("SLURM_JOB_ID",),
    "modelarts": (
        *("MA_VJ_NAME", "MA_NUM_HOSTS", "MA_JOB_DIR", "MA_CURRENT_INSTANCE_NAME", "MA_NUM_GPUS"),
        *("BATCH_JOB_ID", "DLS_TASK_NUMBER"),
    ),
    "volcano": ("VC_TASK_INDEX", "VK_TASK_INDEX", "VC_WORKER_NUM", "VC_WORKER_HOSTS"),
    "kubeflow": ("PET_NNODES", "PET_NODE_RANK"),
}
# A PyTorchJob of an operator that sets no `PET_*` yet, if there is no LOCAL_RANK.
_OLD_KUBEFLOW = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "KUBERNETES_SERVICE_HOST")
PLATFORMS = (*sorted(_SIGNS), "bare")
# What a platform may have around it, or names that YAML gives to it: not a contradiction.
_WITH: dict[str, tuple[str, ...]] = {
    "openmpi": ("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
    "torchrun": ("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
    "mindcluster": ("modelarts", "volcano", "kubeflow"),
    "slurm": ("modelarts",),
    "modelarts": ("volcano", "kubeflow"),
    "volcano": ("kubeflow",),
}
_IN_WORDS = {
    "openmpi": "Open MPI", "mindcluster": "MindCluster", "slurm": "Slurm", "modelarts": "ModelArts",
    "volcano": "Volcano", "kubeflow": "Kubeflow", "bare": "none",
}  # fmt: skip
_TABLES = {  # where rank tables are, if no variable says so
    "volcano": ("/user/config/jobstart_hccl.json",),
    "mindcluster": ("/user/serverid/devindex/config/hccl.json", "/user/config/jobstart_hccl.json"),
}


class Recognised(NamedTuple):
    """A platform and the variables by which it was recognised; `around` are platforms that it runs on.

    `tells_all` is whether nothing but ModelArts' own variables counts: on ModelArts, and on no platform.
    """

    name: str
    why: str
    around: tuple[str, ...] = ()
    chosen: bool = False
    tells_all: bool = False

    def __str__(self) -> str:
        own, *around = (_IN_WORDS.get(name, name) for name in (self.name, *self.around))
        return f"{own} on {', '.join(around)}" if around else own


def recognised(environ: Mapping[str, str], chosen: str | None = None) -> Recognised:
    """The platform that runs this node, `chosen` if it is given.

    Raises `ConfigError` that names both, if the variables of two platforms are set that are never together.
    """
    if chosen is not None:
        return Recognised(chosen, "by --platform", chosen=True, tells_all=_tells_all(chosen, environ))
    variables = {name: [sign for sign in signs if environ.get(sign)] for name, signs in _SIGNS.items()}
    if all(map(environ.get, _OLD_KUBEFLOW)) and not environ.get("LOCAL_RANK"):
        variables["kubeflow"] = variables["kubeflow"] or [*_OLD_KUBEFLOW]
    variables = {name: signs for name, signs in variables.items() if signs}
    if not variables:
        return Recognised("bare", "no platform's variables are set", tells_all=True)
    first, *others = variables
    foreign = [other for other in others if other not in _WITH.get(first, ())]
    if foreign:
        raise ConfigError(
            f"two platforms at once: {first} by {', '.join(variables[first][:3])}, and {foreign[0]} by "
            f"{', '.join(variables[foreign[0]][:3])}; unset the variables of one, or choose with --platform"
        )
    why = "by " + ", ".join(variables[first][:3])
    return Recognised(first, why, tuple(others), tells_all=_tells_all(first, environ))


def _tells_all(name: str, environ: Mapping[str, str]) -> bool:
    return name == "bare" or (name == "modelarts" and bool(environ.get("MA_NUM_HOSTS")))


def place_of(platform: Recognised, around: Around, problems: list[str]) -> NodePlace:
    """What the platform tells, completed by the platforms around it.

    ModelArts' own variables come first, wherever a job's YAML sets them, unless the platform is chosen; but
    `VC_TASK_INDEX` and `VC_WORKER_HOSTS`, which Volcano has for a part of the job, come last. `problems` gets
    what is no number, and what contradicts itself.
    """
    names = (platform.name, *platform.around)
    own, place = modelarts.place(around, problems, _table_in(names, around)), NodePlace()
    if names == ("bare",) and not platform.chosen:
        launchers.check_unknown(around, problems)
    if not platform.tells_all:
        for name in filter(_PLACE_OF.get, names):
            place = place.completed_by(_PLACE_OF[name](around, problems))
        place = place.completed_by(_of_machine(platform, around))
    place = place.completed_by(own) if platform.chosen else own.completed_by(place)
    is_needed = (place.nodes or 1) > 1 and place.node is None  # on a single node the number means nothing
    return place.completed_by(modelarts.of_task(around, problems if is_needed else []))


def per_node(platform: Recognised, around: Around) -> tuple[str, ...]:
    """The variables of the node that the training would take for those of a rank."""
    names: dict[str, None] = {}
    for name in (platform.name, *platform.around):
        names.update(dict.fromkeys(_PER_NODE[name](around) if name in _PER_NODE else ()))
    return tuple(name for name in names if name in around.environ)


def _table_in(platforms: tuple[str, ...], around: Around) -> Callable[[str], str]:
    """The file in a directory of rank tables: one that exists, or is known there, else the platform's."""
    files = (*(file for each in _TABLES.values() for file in each), *reversed(around.tables))
    known = {os.path.dirname(file): file for file in files}
    name = modelarts.TABLE_NAMES["mindcluster" in platforms]

    def table_in(directory: str) -> str:
        return known.get(directory.rstrip("/")) or os.path.join(directory, name)

    return table_in


def _of_machine(platform: Recognised, around: Around) -> NodePlace:
    """What the machine tells where no variable does: the cards, and the place of a rank table."""
    sources: dict[str, str] = {}
    table = None
    if around.devices:
        sources["devices"] = "/dev/davinci*"
    if not any(around.environ.get(name, "").strip() for name in ("RANK_TABLE_FILE", "RANK_TABLE_FILE_V_1_0")):
        places = (file for name in (platform.name, *platform.around) for file in _TABLES.get(name, ()))
        table = next((file for file in places if file in around.tables), None)
        sources["table"] = "its directory exists"
    return NodePlace(devices=len(around.devices) or None, table=table, sources=sources)


_PLACE_OF: dict[str, Callable[[Around, list[str]], NodePlace]] = {
    "volcano": volcano.place,
    "mindcluster": mindcluster.place,
    "slurm": launchers.slurm,
    "kubeflow": launchers.kubeflow,
    "torchrun": launchers.torchrun,
    "openmpi": launchers.openmpi,
}
_PER_NODE: dict[str, Callable[[Around], tuple[str, ...]]] = {
    "volcano": volcano.per_node,
    "mindcluster": mindcluster.per_node,
    "kubeflow": launchers.of_torch,
    "torchrun": launchers.of_torch,
    "openmpi": launchers.of_openmpi,
}
