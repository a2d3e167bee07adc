"""Imports of training code, without MindSpore."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ma_boot.training import init_env
from ma_boot.training.environment import has_group
from tests.unit.training.programs import train


@pytest.mark.invariant(
    "Training code needs only the standard library, and sees no other module of the toolkit"
)
def test_the_standard_library_is_enough_to_import_it() -> None:
    done = train("import ma_boot.training as t; print(t.init_env.__name__)")
    assert (done.stdout, done.stderr) == ("init_env\n", "")


def test_path_mapping_is_importable_as_well() -> None:
    assert (
        train("from path_mapping.mapping.mapping_file import parse_mapping; print('there')").stdout
        == "there\n"
    )


@pytest.mark.invariant(
    "Training code needs only the standard library, and sees no other module of the toolkit"
)
def test_other_modules_of_the_toolkit_are_not_importable() -> None:
    assert "No module named 'click'" in train("import ma_boot, click").stderr


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"MS_ROLE": "MS_WORKER"}, True),
        ({"RANK_TABLE_FILE": "/t.json", "RANK_SIZE": "8", "RANK_ID": "0"}, True),
        ({"RANK_TABLE_FILE": "/t.json", "RANK_SIZE": "1", "RANK_ID": "0"}, False),
        ({"RANK_SIZE": "8"}, False),
        ({"OMPI_COMM_WORLD_SIZE": "4", "RANK_SIZE": "4"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, False),
    ],
)
def test_it_has_a_group_if_it_was_started_with_others(environ: dict[str, str], expected: bool) -> None:
    assert has_group(environ) is expected


def test_all_wrong_settings_are_named_at_once() -> None:
    cfg = SimpleNamespace(seed="x", device_target="TPU", context_mode="lazy")
    with pytest.raises(ValueError, match="device_target: found 'TPU'") as raised:
        init_env(cfg)
    assert "context_mode: found 'lazy'" in str(raised.value)
    assert "seed: found 'x'" in str(raised.value)


FAKE_MINDSPORE = """
import sys, types
calls = []
ms = types.ModuleType("mindspore")  # a fake: there is no NPU here
ms.GRAPH_MODE, ms.PYNATIVE_MODE = "graph mode", "pynative mode"
ms.ParallelMode = types.SimpleNamespace(DATA_PARALLEL="data parallel")
def record(name):
    return lambda *args, **kwargs: calls.append((name, args, kwargs))
for name in ("set_seed", "set_context", "set_device", "set_auto_parallel_context"):
    setattr(ms, name, record(name))
ms.get_context = lambda name: "Ascend"
communication = types.ModuleType("mindspore.communication")
communication.init = record("init")
communication.get_rank, communication.get_group_size = lambda: 5, lambda: 8
sys.modules.update({"mindspore": ms, "mindspore.communication": communication})
"""


@pytest.mark.parametrize(
    ("device_num", "environ", "expected"),
    [
        ("None", {"MS_ROLE": "MS_WORKER", "DEVICE_ID": "1"}, "('Ascend', 1, 8, 5) True"),
        ("8", {"RANK_TABLE_FILE": "/t.json", "RANK_SIZE": "8", "DEVICE_ID": "1"}, "('Ascend', 1, 8, 5) True"),
        ("1", {"DEVICE_ID": "1"}, "('Ascend', 1, 1, 0) False"),
        ("4", {"MS_ROLE": "MS_WORKER"}, "device_num is 4, but 8 processes were started"),
        ("4", {}, "device_num is 4, but 1 processes were started"),
    ],
)
def test_an_npus_process_joins_its_group_on_its_device(
    device_num: str, environ: dict[str, str], expected: str
) -> None:
    program = (
        f"{FAKE_MINDSPORE}\n"
        f"cfg = types.SimpleNamespace(seed=1, device_target='None', context_mode='graph', device_num={device_num})\n"
        "from ma_boot.training import init_env\ninit_env(cfg)\n"
        "assert ('set_device', ('Ascend', 1), {}) in calls, calls\n"
        "print((cfg.device_target, cfg.device_id, cfg.device_num, cfg.rank_id), ('init', (), {}) in calls)"
    )
    done = train(program, **environ)
    assert expected in done.stdout + done.stderr
