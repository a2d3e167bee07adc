"""Hints for known errors of processes and of OBS."""

from __future__ import annotations

import pytest

from ma_boot.errors import StoreUnavailable
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.report.hints import MOST_HINTS, OUTPUT_HINTS, STORE_HINTS, hints_for, with_store_hint
from path_mapping.errors import Failure, MissingInputs, NoSpace, Refused, TransferFailed, Unreachable
from path_mapping.stores.responses import error_of_status

DOING = "listing obs://bucket/data/"


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("[ERROR] EI0004: [/user/config] is not a valid real path", "RANK_TABLE_FILE must name the file"),
        ("ranktable config devId[4],but local devId[0] EI0014", "DEVICE_ID as ma_boot sets it"),
        ("EI0017: Config group_count is missing in the ranktable file.", "rank-table validate"),
        ("EJ0001: Failed to initialize the HCCP process.", "npu-smi info"),
        ("Execute graph failed, retCode=0x91", "plog"),
        ("retCode = 0x91", "plog"),
        ("OSError: [Errno 28] No space left on device", "500,000 files"),
        ("train.py: error: unrecognized arguments: --data_url=obs://b/k", "parse_known_args"),
        ("ImportError: libascendcl.so: cannot open shared object file", "set_env.sh"),
    ],
)
def test_a_known_error_has_a_hint(output: str, part: str) -> None:
    assert any(part in piece for piece in hints_for(f"noise\n{output}\nnoise"))


def test_hints_are_few_and_name_what_they_are_for() -> None:
    hints = hints_for("EI0004 EI0014 EI0017 EJ0001 retCode=0x91")
    assert len(hints) == MOST_HINTS == 3
    assert hints[0].startswith("EI0004: ")
    assert hints_for("all is well") == []
    assert all(" ".join(text.split()) == text for _, text in (*OUTPUT_HINTS, *STORE_HINTS))


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (403, "SignatureDoesNotMatch", "OBS_SECRET_ACCESS_KEY"),
        (403, "InvalidAccessKeyId", "OBS_SECURITY_TOKEN"),
        (403, "ExpiredToken", "OBS_CREDENTIALS_FILE"),
        (403, "RequestTimeTooSkewed", "clock"),
        (403, "AccessDenied", "permission"),
        (403, None, "permission"),
        (301, "PermanentRedirect", "region"),
        (503, "SlowDown", "not transferred again"),
        (404, "NoSuchBucket", "no such bucket"),
    ],
)
def test_each_error_of_obs_has_a_hint(status: int, code: str, says: str) -> None:
    message = with_store_hint(str(error_of_status(DOING, status, code)))
    assert message.count("\n  -> ") == 1
    assert says in message.partition("\n  -> ")[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("no answer from https://obs: gaierror: [Errno -2] Name or service not known", "cannot be resolved"),
        ("no connection to obs.example:443: timed out", "no response"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "no response"),
        ("the path mapping needs OBS, but the environment does not have OBS_ENDPOINT", "--obs-root"),
        ("the training ended well, but left nothing at these output paths:\n  - out", "required: false"),
        (
            "... left nothing at these output paths:\n  - d (the job form's train_url, for u)",
            "Remove an output that the job does not need",
        ),
        ("SSLCertVerificationError: certificate verify failed: self-signed certificate", "SSL_CERT_FILE"),
        (
            "listing obs://my.bucket/x at obs.example: SSLCertVerificationError: certificate verify failed: "
            "Hostname mismatch, certificate is not valid for 'my.bucket.obs.example'",
            "without dots",
        ),
    ],
)
def test_each_failure_on_the_way_to_obs_has_a_hint(words: str, says: str) -> None:
    assert says in with_store_hint(f"{DOING}: {words}").partition("\n  -> ")[2]


def test_an_unknown_error_is_unchanged() -> None:
    assert with_store_hint("some other words") == "some other words"


def test_the_errors_of_a_download_have_the_hint() -> None:
    assert "\n  -> " in str(to_boot_error(Refused(f"{DOING}: HTTP 403 AccessDenied")))
    assert "\n  -> " in str(to_boot_error(Unreachable(f"{DOING}: HTTP 503 SlowDown")))
    assert "required" in str(to_boot_error(MissingInputs(["obs://bucket/none/"]))).partition("\n  -> ")[2]
    assert "\n  -> " not in str(to_boot_error(NoSpace(["/cache: 5 GB needed, 1 GB free"])))
    several = [Failure(f"obs://bucket/{n}", "", Refused(f"{DOING}: HTTP 403")) for n in range(30)]
    failed = to_boot_error(TransferFailed(several, 3))
    assert isinstance(failed, StoreUnavailable)
    assert str(failed).count("\n  -> ") == 1


def test_every_hint_stands_once() -> None:
    assert len({sentence for _, sentence in STORE_HINTS}) == len(STORE_HINTS)
