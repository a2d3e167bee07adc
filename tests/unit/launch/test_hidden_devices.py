"""Variables that hide devices from the ranks of a node."""

from __future__ import annotations

import pytest

from ma_boot.node.boot.launch_phase import find_hidden_devices


@pytest.mark.parametrize("name", ["ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_too_few_visible_devices_are_a_warning(name: str) -> None:
    (warning,) = find_hidden_devices({name: "0,1"}, 4)
    assert str(warning).startswith(
        f"{name}=0,1 shows 2 of the 4 devices that the ranks of this node need: unset it"
    )


@pytest.mark.parametrize("value", ["0,1,2,3", "0,1,2,3,4", "", "-1", " ", "NoDevFiles,1,2,3"])
def test_other_values_are_no_warning(value: str) -> None:
    assert find_hidden_devices({"CUDA_VISIBLE_DEVICES": value}, 4) == []
    assert find_hidden_devices({}, 4) == []
