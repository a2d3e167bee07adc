"""OBS disappears for good while a job with restarts runs: the job ends within its upload timeout."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.conftest import CREDENTIALS, KNOWN
from tests.functional.channel.job_by_hand import JobByHand
from tests.obs import MemoryObs

UPLOAD_SECONDS = 16.0
MAPPING = """
output:
  ckpt: {obs: 'obs://bucket/ckpt/', checkpoint: [explicit, 'step_{step}'], restore: latest, interval: 1}
"""
TRAIN = [
    "from ma_boot.training import checkpoint",
    "os.makedirs('ckpt/step_1', exist_ok=True)",
    "open(f'ckpt/step_1/rank_{rank}.bin', 'w').write('1')",
    "checkpoint(1)",
    "print('step: 1', flush=True)",
    "while not os.path.exists('go'): time.sleep(0.01)",
    "os.makedirs('ckpt/step_2', exist_ok=True)",
    "open(f'ckpt/step_2/rank_{rank}.bin', 'w').write('2')",
    "checkpoint(2)",
    "sys.exit(9)",
]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_whose_obs_is_gone_ends_within_its_upload_timeout(tmp_path: Path, nodes: int) -> None:
    """Publishing before the restart, restoring after it, and the last uploads share one timeout."""
    with ExitStack() as served:
        obs = served.enter_context(MemoryObs(tmp_path / "obs", KNOWN))
        obs.create_bucket("bucket")
        with closing(JobByHand(tmp_path, nodes, TRAIN, OBS_ENDPOINT=obs.url, **CREDENTIALS)) as job:
            (tmp_path / "mapping.yaml").write_text(MAPPING)
            options = ["--path-mapping", str(tmp_path / "mapping.yaml"), "--max-restarts", "3"]
            job.start(*options, "--upload-timeout", str(UPLOAD_SECONDS))
            served.close()
            for node in job.nodes:
                (node.home / "go").write_text("")
            began = time.monotonic()
            ended = [running.end() for running in job.running]
            assert time.monotonic() - began < UPLOAD_SECONDS + 5, ended[0].output
            assert {end.code for end in ended} == {9}, ended[0].output
            assert "not every checkpoint was published" in ended[0].output
