"""A soak: every object and every file is what the model says, or was named as failed.

`make soak SECONDS=1800 SEED=7` repeats the draws of a run; the moments of kills and the order of requests differ.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from pathlib import Path

import pytest

from tests.conformance.clients import Account, Boto
from tests.conformance.conftest import RADOSGW
from tests.conformance.soak.rounds import Soak

SAMPLE_SECONDS, SAMPLE_SEED = 10.0, 13
REPORT_SECONDS = 60.0


def soaked(account: Account, base: Path, seed: int, seconds: float) -> str:
    """Rounds for so many seconds; returns the figures."""
    witness = Boto(account, f"bucket-{uuid.uuid4().hex[:12]}")
    assert witness.create_bucket().status == 200
    soak = Soak(account, witness, base, random.Random(seed))
    begun = reported = time.monotonic()
    while time.monotonic() < begun + seconds:
        try:
            soak.round()
        except Exception as error:
            raise AssertionError(f"round {soak.number} with SEED={seed}: {error}") from error
        if time.monotonic() > reported + REPORT_SECONDS:
            reported = time.monotonic()
            print(f"{reported - begun:.0f} s, {soak.number} rounds, {dict(soak.counted)}", flush=True)
    return f"SEED={seed}: {soak.number} rounds, {dict(soak.counted)}"


@pytest.mark.radosgw
def test_a_sample_of_the_soak(radosgw_account: Account, tmp_path: Path) -> None:
    print(soaked(radosgw_account, tmp_path, SAMPLE_SEED, SAMPLE_SECONDS))


@pytest.mark.kill
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(("embedded", "v2"), id="embedded"),
        pytest.param(("radosgw", "v2"), id="radosgw", marks=RADOSGW),
    ],
)
def test_no_file_is_lost_in_silence(account: Account, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(1 << 31))
    print(soaked(account, tmp_path, seed, float(os.environ.get("SOAK_SECONDS") or 60)))
