"""What only watches a run: hangs, metrics, MindCluster's resets, other nodes. The core never imports it."""

from ma_boot.observe.cards import (
    CardTools as CardTools,
    NpuState as NpuState,
    npu_rows as npu_rows,
    run_tool as run_tool,
)
from ma_boot.observe.hang_detector import HangDetector as HangDetector
from ma_boot.observe.peers import PeerMessage as PeerMessage
from ma_boot.observe.progress import given as given, has_step as has_step
from ma_boot.observe.reset import ResetWatch as ResetWatch, reset_watch as reset_watch
from ma_boot.observe.sampler import Metrics as Metrics, Sampling as Sampling
from ma_boot.observe.save_agreement import SaveAgreement as SaveAgreement
from ma_boot.observe.saving import SaveOptions as SaveOptions, SaveRequests as SaveRequests
from ma_boot.observe.semaphores import Semaphores as Semaphores
