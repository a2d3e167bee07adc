"""ModelArts' diagnostic modes: the variables that `MA_DIAG_MODE_ENV` and `MA_RUN_MODE_ENV` add to each rank.

Names and values are those of ModelArts' launcher (davincirun, `fmk.py`).
"""

from __future__ import annotations

import os.path
from typing import Dict, Mapping, Optional, Tuple

from ma_boot.modelarts import JobEnvironment

_FAULTS = {
    "PRINT_MODEL": "1",
    "DUMP_GE_GRAPH": "2",
    "DUMP_GRAPH_LEVEL": "2",
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
}
_SINCE_MINDSPORE = (1, 4)


def diagnosis(job: JobEnvironment, environ: Mapping[str, str], rank: int) -> Dict[str, Optional[str]]:
    """The variables of the mode selected for the job; those in `environ` keep their values."""
    logs = os.path.join(job.log_dir, job.name)
    mindspore_log = os.path.join(logs, "mindspore", "log")
    glog = {"GLOG_log_dir": mindspore_log, "GLOG_logtostderr": "0", "MS_OM_PATH": mindspore_log}
    mode, run_mode = environ.get("MA_DIAG_MODE_ENV"), environ.get("MA_RUN_MODE_ENV")
    wanted: Dict[str, str] = {}
    if mode == "faults":
        wanted = {**_FAULTS, "NPU_COLLECT_PATH": os.path.join(logs, "ascend", "npu_collect", f"rank_{rank}")}
        if _mindspore_version(environ.get("MA_ENGINE_VERSION", "")) >= _SINCE_MINDSPORE:
            wanted.update(glog, GLOG_v="1", MS_RDR_ENABLE="1", MS_RDR_PATH=mindspore_log)
    elif mode in ("accuracy", "profile"):
        wanted = {"MS_DIAGNOSTIC_DATA_PATH": os.path.join(logs, "mindspore", "diagnostic_data")}
    elif run_mode == "performance":
        wanted = {**glog, "ASCEND_GLOBAL_LOG_LEVEL": "3", "ASCEND_GLOBAL_EVENT_LEVEL": "0", "GLOG_v": "3"}
    elif run_mode == "normal":
        wanted = {**glog, "GLOG_v": "1"}
    return {name: environ.get(name, value) for name, value in wanted.items()}


def _mindspore_version(engine: str) -> Tuple[int, ...]:
    """(1, 7) for `mindspore_1.7.0-cann_5.1.0-...`, () for another engine.

    ModelArts' launcher compares strings, by which 1.10 would be older than 1.4.
    """
    name, _, version = engine.split("-")[0].partition("_")
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if name == "mindspore" and all(part.isdecimal() for part in parts) else ()
