"""The report of pytest on a failed training."""

from __future__ import annotations

import pytest

from ma_boot.report.doubt import failure_at_end
from ma_boot.report.failure import find_failure

REPORT = """\
resnet50_distributed_training.py::test_train step 1
FAILED

=================================== FAILURES ===================================
__________________________________ test_train __________________________________

    def test_train():
>       helper()

resnet50_distributed_training.py:6:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def helper():
>       raise ValueError("bad shard")
E       ValueError: bad shard

src/data.py:2: ValueError
__________________________________ test_other __________________________________
E       KeyError: 'other'
other.py:9: KeyError
=========================== short test summary info ============================
FAILED resnet50_distributed_training.py::test_train - ValueError: bad shard
"""
ENDS = [
    "============================== 1 failed in 0.03s ===============================",
    "=================== 2 failed, 1 passed, 3 warnings in 12.40 seconds ===================",
    "========================= 1 passed, 1 error in 1.05s =========================",
]


@pytest.mark.parametrize("end", ENDS)
def test_first_failed_test_is_the_failure(end: str) -> None:
    output = f"{REPORT}{end}\n"
    failure = find_failure(output)
    assert failure is not None
    assert (failure.words, failure.place) == ("ValueError: bad shard", "src/data.py:2")
    assert failure_at_end(output) == ("ValueError: bad shard", "src/data.py:2")


@pytest.mark.parametrize(
    "output", [REPORT, "======= 3 passed in 0.03s =======\n", f"{REPORT}{ENDS[0]}\n" + "line\n" * 50]
)
def test_report_without_its_end_or_long_before_is_no_failure(output: str) -> None:
    assert find_failure(output) is None
    assert failure_at_end(output) is None


def test_failure_of_another_form_is_still_named() -> None:
    output = f"=========== ERRORS ===========\nlast words\n{ENDS[0]}\n"
    assert failure_at_end(output) == ("a test has failed", "")
