"""Sets up MindSpore according to how the process was started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

TARGETS = ("None", "Ascend", "GPU", "CPU")
MODES = ("graph", "pynative")


def init_env(cfg: Any) -> None:
    """Sets up MindSpore in this process; call it once, before creating a network.

    `cfg` has `seed`, `device_target` ("None", "Ascend", "GPU" or "CPU"; "None" leaves it to MindSpore) and
    `context_mode` ("graph" or "pynative"), and may have `device_num`, `device_id` and
    `all_reduce_fusion_config`, as in the template of MindSpore's migration guide ("Training and inference
    process"). `device_target`, `device_id`, `device_num` and `rank_id` are set to the actual values; the
    `device_id` is that of the variable `DEVICE_ID`, if it is set.

    The process joins the others by what is set in the environment: the dynamic cluster (`MS_ROLE`), the rank
    table (`RANK_TABLE_FILE`, `RANK_ID`, `RANK_SIZE`) or mpirun (`OMPI_COMM_WORLD_SIZE`); otherwise it runs
    alone, as with `python train.py`. Unlike the guide, it also distributes training on CPUs, which the
    dynamic cluster supports since MindSpore 2.0.

    In the scheduler of the dynamic cluster this does not return: the process exits with the cluster. Raises
    `ValueError` with all errors in `cfg`.
    """
    problems = []
    for name, allowed in (("device_target", TARGETS), ("context_mode", MODES)):
        value = getattr(cfg, name, None)
        if value not in allowed:
            problems.append(f"{name}: found {value!r}, expected one of {list(allowed)}")
    if not isinstance(getattr(cfg, "seed", None), int):
        problems.append(f"seed: found {getattr(cfg, 'seed', None)!r}, expected an integer")
    if problems:
        raise ValueError("; ".join(problems))
    import mindspore as ms

    ms.set_seed(cfg.seed)
    ms.set_context(mode=ms.GRAPH_MODE if cfg.context_mode == "graph" else ms.PYNATIVE_MODE)
    if cfg.device_target == "None":
        cfg.device_target = ms.get_context("device_target")
    given = os.environ.get("DEVICE_ID", getattr(cfg, "device_id", None) or 0)
    cfg.device_id = 0 if cfg.device_target == "CPU" else int(given)
    _use_device(ms, cfg.device_target, cfg.device_id)
    cfg.rank_id, size = 0, 1
    if has_group(os.environ):
        cfg.rank_id, size = _join_group(ms, cfg)
    wanted = getattr(cfg, "device_num", None)
    if wanted not in (None, size):
        raise ValueError(
            f"device_num is {wanted}, but {size} processes were started: remove it, or set it to {size}"
        )
    cfg.device_num = size


def has_group(environ: Mapping[str, str]) -> bool:
    """Returns whether this process joins others: by the dynamic cluster, by mpirun, or by the rank table."""
    if environ.get("MS_ROLE"):
        return True
    if group_size(environ) == 1:
        return False
    return bool(environ.get("OMPI_COMM_WORLD_SIZE") or environ.get("RANK_TABLE_FILE"))


def group_size(environ: Mapping[str, str]) -> int:
    """Returns the number of processes that were started together."""
    for name in ("MS_WORKER_NUM", "OMPI_COMM_WORLD_SIZE", "RANK_SIZE"):
        if environ.get(name):
            return int(environ[name])
    return 1


def _use_device(ms: Any, target: str, device_id: int) -> None:
    """Selects the device with `set_device`, or with `set_context` before MindSpore 2.5."""
    if hasattr(ms, "set_device"):
        ms.set_device(target, device_id) if target != "CPU" else ms.set_device(target)
    elif target == "CPU":
        ms.set_context(device_target=target)
    else:
        ms.set_context(device_target=target, device_id=device_id)


def _join_group(ms: Any, cfg: Any) -> tuple[int, int]:
    """Joins the group for data-parallel training; returns the rank and the size of the group."""
    from mindspore.communication import get_group_size, get_rank, init

    init()
    settings = {"parallel_mode": ms.ParallelMode.DATA_PARALLEL, "gradients_mean": True}
    if hasattr(cfg, "all_reduce_fusion_config"):
        settings["all_reduce_fusion_config"] = cfg.all_reduce_fusion_config
    ms.set_auto_parallel_context(**settings)
    return get_rank(), get_group_size()
