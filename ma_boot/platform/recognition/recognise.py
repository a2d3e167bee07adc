"""Recognises the platform by its variables, and finds the node's place in the job.

    variables of the node
      |-- recognise       the platform, and those that it runs on: by variables that only it sets (`signs`)
      `-- find_place      ModelArts' variables, then those of each platform, then the machine

The table `_PLATFORMS` has one entry per platform; to add one, write its reader and an entry.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from typing import Callable, NamedTuple

from ma_boot.errors import ConfigError
from ma_boot.platform.recognition import launchers, mindcluster, modelarts, volcano
from ma_boot.platform.recognition.place import NodePlace, Surroundings

BARE = "bare"


class Platform(NamedTuple):
    """A platform or launcher; `name` is that of `--platform`, `title` that of messages.

    `signs` are variables that only this platform sets. `runs_on` are platforms whose variables may be set as
    well, as it runs on them, or as a job's YAML sets them. `read_place` reads its variables; None for
    ModelArts, whose variables are read on every platform. `node_variables` are those that the training would
    take for the variables of a rank. `tables` are the usual files of a rank table.
    """

    name: str
    title: str
    signs: tuple[str, ...]
    runs_on: tuple[str, ...] = ()
    read_place: Callable[[Surroundings, list[str]], NodePlace] | None = None
    node_variables: Callable[[Surroundings], tuple[str, ...]] = lambda around: ()
    tables: tuple[str, ...] = ()


# The order decides: the first platform with a sign runs on the following ones.
_PLATFORMS = (
    Platform(
        "openmpi",
        "Open MPI",
        signs=("OMPI_COMM_WORLD_SIZE",),
        runs_on=("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
        read_place=launchers.openmpi_place,
        node_variables=launchers.openmpi_variables,
    ),
    Platform(
        "torchrun",
        "torchrun",
        signs=("TORCHELASTIC_RUN_ID",),
        runs_on=("mindcluster", "modelarts", "volcano", "slurm", "kubeflow"),
        read_place=launchers.torchrun_place,
        node_variables=launchers.torch_variables,
    ),
    Platform(
        "mindcluster",
        "MindCluster",
        signs=("MINDX_TASK_ID", "MINDX_SERVER_IP", "XDL_IP"),
        runs_on=("modelarts", "volcano", "kubeflow"),
        read_place=mindcluster.read_place,
        node_variables=mindcluster.node_variables,
        tables=("/user/serverid/devindex/config/hccl.json", "/user/config/jobstart_hccl.json"),
    ),
    Platform(
        "slurm",
        "Slurm",
        signs=("SLURM_JOB_ID",),
        runs_on=("modelarts",),
        read_place=launchers.slurm_place,
    ),
    Platform(
        "modelarts",
        "ModelArts",
        signs=(
            *("MA_VJ_NAME", "MA_NUM_HOSTS", "MA_JOB_DIR", "MA_CURRENT_INSTANCE_NAME", "MA_NUM_GPUS"),
            *("BATCH_JOB_ID", "DLS_TASK_NUMBER"),
        ),
        runs_on=("volcano", "kubeflow"),
    ),
    Platform(
        "volcano",
        "Volcano",
        signs=("VC_TASK_INDEX", "VK_TASK_INDEX", "VC_WORKER_NUM", "VC_WORKER_HOSTS"),
        runs_on=("kubeflow",),
        read_place=volcano.read_place,
        node_variables=volcano.node_variables,
        tables=("/user/config/jobstart_hccl.json",),
    ),
    Platform(
        "kubeflow",
        "Kubeflow",
        signs=("PET_NNODES", "PET_NODE_RANK"),
        read_place=launchers.kubeflow_place,
        node_variables=launchers.torch_variables,
    ),
)
_BY_NAME = {platform.name: platform for platform in (*_PLATFORMS, Platform(BARE, "none", ()))}
# Values of --platform.
PLATFORM_NAMES = tuple(_BY_NAME)
# A PyTorchJob of a training operator that sets no `PET_*` yet, if there is no LOCAL_RANK.
_OLD_KUBEFLOW = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "KUBERNETES_SERVICE_HOST")
# Variables that are named as the reason.
_MOST_SIGNS = 3


class RecognisedPlatform(NamedTuple):
    """The name of a platform, the reason, and the names of the platforms `around` that it runs on.

    It is `chosen` by `--platform`. `modelarts_only`: only ModelArts' own variables are read, as on ModelArts
    and on no platform.
    """

    name: str
    why: str
    around: tuple[str, ...] = ()
    chosen: bool = False
    modelarts_only: bool = False

    def __str__(self) -> str:
        own, *around = (_BY_NAME[name].title for name in self.names)
        return f"{own} on {', '.join(around)}" if around else own

    @property
    def names(self) -> tuple[str, ...]:
        """The platform and those around it."""
        return (self.name, *self.around)

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """The entries of the platform and of those around it."""
        return tuple(_BY_NAME[name] for name in self.names)


def recognise(environ: Mapping[str, str], chosen: str | None = None) -> RecognisedPlatform:
    """Returns the platform that runs this node; `chosen` is the user's.

    Raises:
        ConfigError: the variables of two platforms are set that do not run on each other.
    """
    if chosen is not None:
        only = _reads_modelarts_only(chosen, environ)
        return RecognisedPlatform(chosen, "by --platform", chosen=True, modelarts_only=only)
    found = {platform.name: signs for platform in _PLATFORMS if (signs := _signs_of(platform, environ))}
    if not found:
        return RecognisedPlatform(BARE, "no platform's variables are set", modelarts_only=True)
    first, *others = found
    named = {name: ", ".join(signs[:_MOST_SIGNS]) for name, signs in found.items()}
    foreign = [other for other in others if other not in _BY_NAME[first].runs_on]
    if foreign:
        raise ConfigError(
            f"two platforms at once: {first} by {named[first]}, and {foreign[0]} by {named[foreign[0]]}; "
            "unset the variables of one, or choose with --platform"
        )
    only = _reads_modelarts_only(first, environ)
    return RecognisedPlatform(first, f"by {named[first]}", tuple(others), modelarts_only=only)


def _signs_of(platform: Platform, environ: Mapping[str, str]) -> list[str]:
    """The variables by which a platform is recognised; empty if it is not."""
    signs = [sign for sign in platform.signs if environ.get(sign)]
    if not signs and platform.name == "kubeflow" and not environ.get("LOCAL_RANK"):
        return [*_OLD_KUBEFLOW] if all(map(environ.get, _OLD_KUBEFLOW)) else []
    return signs


def _reads_modelarts_only(name: str, environ: Mapping[str, str]) -> bool:
    return name == BARE or (name == "modelarts" and bool(environ.get("MA_NUM_HOSTS")))


def find_place(platform: RecognisedPlatform, around: Surroundings, problems: list[str]) -> NodePlace:
    """Returns the node's place in the job; `problems` gets invalid and contradictory variables.

    ModelArts' own variables come first, wherever a job's YAML sets them, unless the platform is chosen. But
    `VC_TASK_INDEX` and `VC_WORKER_HOSTS`, which Volcano has for a part of the job, come last.
    """
    own = modelarts.read_place(around, problems, _table_finder(platform.names, around))
    place = NodePlace()
    if platform.names == (BARE,) and not platform.chosen:
        launchers.check_unknown(around, problems)
    if not platform.modelarts_only:
        for each in platform.platforms:
            if each.read_place is not None:
                place = place.completed_by(each.read_place(around, problems))
        place = place.completed_by(_place_by_machine(platform, around))
    place = place.completed_by(own) if platform.chosen else own.completed_by(place)
    # A single node needs no number, so an invalid one is no problem.
    needs_number = (place.nodes or 1) > 1 and place.node is None
    return place.completed_by(modelarts.read_task(around, problems if needs_number else []))


def find_node_variables(platform: RecognisedPlatform, around: Surroundings) -> tuple[str, ...]:
    """Returns the variables of the node that the training would take for those of a rank."""
    names = (name for each in platform.platforms for name in each.node_variables(around))
    return tuple(name for name in dict.fromkeys(names) if name in around.environ)


def _table_finder(names: Iterable[str], around: Surroundings) -> Callable[[str], str]:
    """Returns the function from a directory to the file of the rank table in it.

    A file that exists comes first, then a usual one, then the platform's name of the file.
    """
    usual = (*(file for each in _PLATFORMS for file in each.tables), *reversed(around.tables))
    known = {os.path.dirname(file): file for file in usual}
    name = modelarts.MINDCLUSTER_TABLE if "mindcluster" in names else modelarts.TABLE_NAME

    def find_table(directory: str) -> str:
        return known.get(directory.rstrip("/")) or os.path.join(directory, name)

    return find_table


def _place_by_machine(platform: RecognisedPlatform, around: Surroundings) -> NodePlace:
    """The cards of the machine, and a usual file of the rank table, for values without a variable."""
    sources: dict[str, str] = {}
    table = None
    if around.devices:
        sources["devices"] = "/dev/davinci*"
    if not any(around.environ.get(name, "").strip() for name in ("RANK_TABLE_FILE", "RANK_TABLE_FILE_V_1_0")):
        usual = (file for each in platform.platforms for file in each.tables)
        table = next((file for file in usual if file in around.tables), None)
        sources["table"] = "its directory exists"
    return NodePlace(devices=len(around.devices) or None, table=table, sources=sources)
