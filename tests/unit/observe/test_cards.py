"""What the tools of cards print; the texts stand in for tools that are not on this machine."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.metrics.card_tables import is_busy, parse_gpu_samples, parse_link, parse_npu_rows
from ma_boot.node.observe.metrics.record import CardSample

NPU_910B = """
+------------------------------------------------------------------------------------------------+
| npu-smi 23.0.1                   Version: 23.0.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 4     910B3               | OK            | 93.6        40                0    / 0             |
| 0                         | 0000:01:00.0  | 97          0    / 0          3161 / 65536         |
+===========================+===============+====================================================+
| 5     910B3               | Alarm         | 310.5       88                0    / 0             |
| 0                         | 0000:02:00.0  | 0           0    / 0          3163 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 4       0                 | 99910         | python                   | 27977                   |
| No running processes found in NPU 5                                                            |
+===========================+===============+====================================================+
"""
NPU_910A = """
+----------------------+---------------+---------------------------------------------+
| NPU   Name           | Health        | Power(W)   Temp(C)                          |
| Chip                 | Bus-Id        | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB)  |
+======================+===============+=============================================+
| 1     910A           | OK            | 64.3       56                               |
| 0                    | 0000:3B:00.0  | 0          1809 / 15079      7    / 32768   |
+======================+===============+=============================================+
"""
NPU_A3 = """
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 2     Ascend910           | OK            | 204.0                43                      0    / 0                |
| 0     4                   | 0000:9D:00.0  | 100                  0    / 0                59807/ 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 2     Ascend910           | OK            | -                    40                      0    / 0                |
| 1     5                   | 0000:9F:00.0  | 60                   0    / 0                59536/ 65536            |
"""
NPU_310 = """
| NPU     Name      | Health          | Power(W)          Temp(C)              |
| Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)     |
+===================+=================+========================================+
| 0       310       | OK              | 12.8              58                   |
| 0       0         | NA              | 0                 5324 / 8192          |
"""
GPUS = """\
97, 42, 30012, 81559, 61, 402.17, 4, 16
100, 0, 30012, 81559, 41, 102.17, [N/A], [N/A]
[N/A], [N/A], [N/A], [N/A], 38, [Not Supported], 1, 16
"""


def test_the_cards_of_npu_smi() -> None:
    rows = parse_npu_rows(NPU_910B)
    assert [(row.npu, row.name, row.physical) for row in rows] == [(4, "910B3", 4), (5, "910B3", 5)]
    assert [row.sample for row in rows] == [
        CardSample(0, 97.0, 3161, 65536, 40.0, 93.6, "OK"),
        CardSample(1, 0.0, 3163, 65536, 88.0, 310.5, "Alarm"),
    ]


@pytest.mark.parametrize(
    ("table", "samples"),
    [
        (NPU_910A, [CardSample(0, 0.0, 7, 32768, 56.0, 64.3, "OK")]),
        (NPU_310, [CardSample(0, 0.0, 5324, 8192, 58.0, 12.8, "OK")]),
        (
            NPU_A3,
            [
                CardSample(0, 100.0, 59807, 65536, 43.0, 204.0, "OK"),
                CardSample(1, 60.0, 59536, 65536, 40.0, None, "OK"),
            ],
        ),
    ],
    ids=["910A", "310", "A3"],
)
def test_other_tables(table: str, samples: list[CardSample]) -> None:
    assert [row.sample for row in parse_npu_rows(table)] == samples


def test_both_dies_of_a_card_have_a_physical_number() -> None:
    assert [(row.npu, row.physical) for row in parse_npu_rows(NPU_A3)] == [(2, 4), (2, 5)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dcmi module initialize failed. ret is -8005",
        "| 0 | 1 | 2 |",
        "||||",
        NPU_910B[:900],
        "|1 x|OK||\n|0|b||",
    ],
)
def test_whatever_npu_smi_prints_is_no_error(text: str) -> None:
    parse_npu_rows(text)


def test_the_cards_of_nvidia_smi() -> None:
    assert parse_gpu_samples(GPUS) == [
        CardSample(0, 97.0, 30012, 81559, 61.0, 402.17, None, "gen4 x16", 42.0),
        CardSample(1, 100.0, 30012, 81559, 41.0, 102.17, None, None, 0.0),
        CardSample(2, None, None, None, 38.0, None, None, "gen1 x16", None),
    ]
    assert (
        parse_gpu_samples("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
        == []
    )


def test_which_cards_work() -> None:
    assert [is_busy(row.sample) for row in parse_npu_rows(NPU_910B)] == [True, False]
    assert [is_busy(card) for card in parse_gpu_samples(GPUS)] == [True, False, False], (
        "a kernel that spins reads no memory"
    )


def test_the_state_of_a_link() -> None:
    assert [parse_link(text) for text in ("link status: UP\n", "link status: DOWN\n", "no such device\n")] == [
        "UP", "DOWN", None,
    ]  # fmt: skip
