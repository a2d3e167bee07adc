"""False stops: a start is ended only by two equal failures of the training itself, without any progress.

The failures are real texts, and pass through everything that a start makes of them: cause, kind and entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, failure_kind
from ma_boot.node.peers.start_rule import STARTS, repeated_start
from ma_boot.report.cause import cause_of, causes_of
from ma_boot.report.job_ledger import (
    BEGUN,
    FAILED,
    STOPPED,
    SUCCEEDED,
    EntryKey,
    JobLedger,
    LedgerEntry,
    RunDigest,
)
from ma_boot.report.result import WorkerExit

NOW = RunDigest("a", "b", "c", "d", "e")
HINTS = Path(__file__).parents[1] / "report" / "hint_texts.yaml"
TEXTS: dict[str, str] = {name: text["real"] for name, text in yaml.safe_load(HINTS.read_text()).items()}
# A whole output of Python begins with this line.
TRACEBACK = 'Traceback (most recent call last):\n  File "/home/ma-user/project/train.py", line 34, in <module>\n    main()\n'


class Start(NamedTuple):
    """A start of a job; `outcome` is empty if it was killed before it wrote its end."""

    output: str
    outcome: str = FAILED
    digest: RunDigest = NOW
    whole: str = "400"
    step: int | None = 410
    code: int = 1
    signal: int | None = None
    is_raised: bool = True

    @property
    def entry(self) -> LedgerEntry:
        """The entry of its end."""
        output = f"{TRACEBACK if self.is_raised else ''}{self.output}\n"
        ended = WorkerExit("rank 3", 3, 3, 77, self.code, self.signal, 9, 61.0, False, "", output)
        cause = cause_of(causes_of([ended], 0, 0.0))
        assert cause is not None
        ends = {0: AttemptEnd(1, whole=self.whole, seconds=61.0, stepped=self.step is not None)}
        kind = failure_kind(ends, cause, RestartPolicy())
        key = EntryKey(1, "9c41e0d2", 1, self.outcome)
        entry = LedgerEntry(key, "job", 1.0, 1, digest=self.digest, step=self.step, whole=self.whole)
        return entry._replace(code=cause.code, words=cause.words, place=cause.place, kind=kind)


def ledger(*starts: Start) -> JobLedger:
    """The ledger of these starts, one after the other."""
    entries = []
    for number, start in enumerate(starts, 1):
        begun = EntryKey(number, "9c41e0d2", 0, BEGUN)
        entries.append(LedgerEntry(begun, "job", 1.0, 1, digest=start.digest))
        if start.outcome:
            key = begun._replace(attempt=1, outcome=start.outcome)
            entries.append(start.entry._replace(key=key))
    return JobLedger.of(entries)


def is_refused(*starts: Start, saves: bool = True) -> bool:
    """Returns whether another start after these ends at once."""
    return repeated_start(ledger(*starts), NOW, saves) is not None


# Names of hints: the failure is of a card, a network, a disk, another process or another node.
FROM_OUTSIDE = [
    "EI0002", "EI0006", "EI0007", "EI0009", "EI0010", "EI0012",
    "EI0013", "EI0015", "EI0019", "EI0020", "EJ0001", "EJ0002",
    "hccl-code-internal", "hccl-code-timeout", "hccl-code-network", "hccl-code-remote", "hccl-api", "watchdog",
    "npu-operator-timeout", "npu-operator-exception", "npu-aicpu-exception", "npu-model-data", "npu-model-execute", "npu-busy-container",
    "npu-no-access", "npu-setup", "npu-wait-timeout", "npu-stopped", "npu-resources", "npu-no-device",
    "npu-memory-fault", "npu-link-fault", "npu-remote-fault", "npu-driver", "npu-internal", "ms-timed-out-node",
    "ms-scheduler", "ms-execute", "ms-run", "cuda-memory", "cuda-illegal-address", "gpu-hardware",
    "no-gpu", "cuda-unknown", "cublas", "cuda-busy", "nccl-peer", "nccl-system",
    "nccl-ib", "store-timeout", "store-key", "port", "lost-peer", "rendezvous-closed",
    "dataloader-shm", "dataloader-killed", "disk-full", "disk-quota", "disk-watch", "driver-library",
    "processes", "node-name", "no-network", "hub", "vllm-engine", "ray-worker-died",
    "ray-memory", "ray-head", "killed", "tbe-main", "dcmi", "git-clone",
    "connection", "obs-busy", "obs-name", "obs-no-answer", "obs-expired", "obs-clock",
    "hccl-task-timeout", "conda-network",
]  # fmt: skip


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_failure_from_outside_the_training_never_ends_a_start(name: str) -> None:
    start = Start(f"RuntimeError: {TEXTS[name]}")
    assert start.entry.kind not in STARTS
    assert not is_refused(start, start, start)


@pytest.mark.parametrize(
    "output",
    [
        "RuntimeError: CUDA error: unspecified launch failure",
        "torch.AcceleratorError: CUDA error: the launch timed out and was terminated",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle)`",
        "RuntimeError: No CUDA GPUs are available",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:268, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.74 GiB of which 1.25 GiB is free. Process 4711 has 12.50 GiB memory in use. Including non-PyTorch memory, this process has 17.99 GiB memory in use.",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
        "RuntimeError: DataLoader worker (pid(s) 4711, 4712) exited unexpectedly",
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending.",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        "EOFError",
        "_queue.Empty",
        "KeyboardInterrupt",
        "OSError: [Errno 116] Stale file handle: '/data/train/0.tar'",
        "OSError: [Errno 5] Input/output error: '/data/train/0.tar'",
        "OSError: [Errno 107] Transport endpoint is not connected: '/data'",
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/a'",
        "OSError: [Errno 37] No locks available",
        "OSError: [Errno 16] Device or resource busy: '/sfs/.nfs0001'",
        "OSError: [Errno 113] No route to host",
        "OSError: [Errno 121] Remote I/O error: '/data/a'",
        "OSError: [Errno 12] Cannot allocate memory",
        "OSError: [Errno 122] Disk quota exceeded: '/sfs/out/a'",
        "OSError: [Errno 98] Address already in use",
        "RuntimeError: EADDRINUSE: 29500",
        "ImportError: /sfs/env/lib/x.so: cannot read file data: Input/output error",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
        "requests.exceptions.HTTPError: 502 Server Error: Bad Gateway for url: https://hub/x",
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://hub/x",
        "requests.exceptions.HTTPError: 500 Server Error: Internal Server Error for url: https://hub/x",
        "urllib3.exceptions.IncompleteRead: IncompleteRead(123 bytes read, 5 more expected)",
        "ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:1007)",
        "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.",
        "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed",
    ],
)  # fmt: skip
def test_error_of_hardware_network_storage_or_another_process_never_ends_a_start(output: str) -> None:
    start = Start(output)
    assert start.entry.kind not in STARTS
    assert not is_refused(start, start, start)


@pytest.mark.parametrize(
    ("output", "refused"),
    [
        ("train.py: error: unrecognized arguments: --timeout", True),
        ("train.sh: line 12: syntax error: unexpected end of file", True),
        ("python: can't open file 'train2.py': [Errno 2] No such file or directory", True),
        ("tar: a.tar: Cannot open: Input/output error", False),
        ("Error: connection timed out", False),
        ("bad arguments", True),
    ],
)
def test_exit_code_2_ends_no_start_after_an_error_of_a_network_or_of_storage(
    output: str, refused: bool
) -> None:
    start = Start(output, code=2, is_raised=False)
    assert is_refused(start, start) == refused


@pytest.mark.parametrize("signal", [6, 7, 9, 11, 15])
def test_signal_never_ends_a_start(signal: int) -> None:
    start = Start("", code=128 + signal, signal=signal)
    assert not is_refused(start, start, start)


@pytest.mark.parametrize("name", ["index-range", "matrix-shapes", "state-dict", "cuda-assert", "cuda-oom", "npu-oom",
                                  "EI0005", "batch-sizes", "none-object", "no-module", "pickle"])  # fmt: skip
def test_failure_of_the_training_itself_ends_the_third_start(name: str) -> None:
    start = Start(TEXTS[name] if name == "no-module" else f"RuntimeError: {TEXTS[name]}")
    assert not is_refused(start)
    assert is_refused(start, start)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: cannot read shard-00012.tar", "ValueError: cannot read shard-00345.tar"),
        ("ValueError: bad label in sample 123456", "ValueError: bad label in sample 654321"),
        ("ValueError: the loss is nan at step 4100", "ValueError: the loss is nan at step 4900"),
        ("ValueError: the loss 31.4159 is too large", "ValueError: the loss 27.1828 is too large"),
        ("AssertionError: Rank 3: found NaN", "AssertionError: Rank 5: found NaN"),
        ("RuntimeError: error code is 107002", "RuntimeError: error code is 107003"),
        ("RuntimeError: EZ1001: wrong", "RuntimeError: EZ3003: wrong"),
        ("KeyError: 20481", "KeyError: 20482"),
        ("ValueError: record:48213 is broken", "ValueError: record:11213 is broken"),
    ],
)
def test_number_that_matters_makes_another_failure(one: str, other: str) -> None:
    assert is_refused(Start(one), Start(one))
    assert not is_refused(Start(one), Start(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TypeError: <Net object at 0x7f12a0> is no module", "TypeError: <Net object at 0x7f99b8> is no module"),
        ("ValueError: process 48213 has no batch", "ValueError: process 951 has no batch"),
        ("ValueError: worker (pid 48213) sent None", "ValueError: worker (pid 951) sent None"),
        ("ValueError: 192.168.0.12:40112 has 3 classes", "ValueError: 192.168.7.1:39764 has 3 classes"),
        ("ValueError: job-worker-0:40112 has 3 classes", "ValueError: job-worker-0:39764 has 3 classes"),
        ("ValueError: bad batch at 2026-11-28 20:01:22.104", "ValueError: bad batch at 2026-11-29 03:11:02.9"),
        ("RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (1.25 GiB free)",
         "RuntimeError: NPU out of memory. Tried to allocate 2.02 GiB (948.00 MiB free)"),
    ],
)  # fmt: skip
def test_address_time_or_process_id_does_not_make_another_failure(one: str, other: str) -> None:
    assert is_refused(Start(one), Start(other))


@pytest.mark.parametrize(("steps", "refused"), [((410, 410), True), ((410, 411), True), ((None, None), True),
                                                ((410, 490), False), ((410, None), False)])  # fmt: skip
def test_failure_at_another_step_comes_and_goes(steps: tuple[int | None, int | None], refused: bool) -> None:
    assert is_refused(*(Start("ValueError: bad", step=step) for step in steps)) == refused


# Changes of a start; most starts of a sequence are without one.
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    *({"outcome": outcome} for outcome in (STOPPED, SUCCEEDED, "")),
    *({"digest": NOW._replace(**{name: value})} for name in RunDigest._fields for value in ("other", "")),
    {"whole": "500"},
    {"whole": ""},
    {"step": 490},
    {"step": None},
    {"code": 2},
    {"code": 139, "signal": 11},
    {"output": "ValueError: bad label in sample 4711"},
    {"output": "ValueError: bad label in sample 4712"},
    {"output": "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
    {"output": "torch.distributed.DistNetworkError: Connection reset by peer"},
)


@settings(max_examples=500)
@given(
    st.sampled_from([*(f"RuntimeError: {text}" for text in TEXTS.values()), "ValueError: bad label 91"]),
    st.lists(st.sampled_from(CHANGES), max_size=6),
    st.booleans(),
)
def test_only_two_equal_failures_with_the_same_digests_and_no_progress_end_a_start(
    output: str, changes: list[dict[str, Any]], saves: bool
) -> None:
    starts = [Start(output)._replace(**change) for change in changes]
    if not is_refused(*starts, saves=saves):
        return
    last, before = starts[-1], starts[-2]
    assert last == before
    assert (last.outcome, last.digest) == (FAILED, NOW)
    assert last.entry.kind in STARTS
