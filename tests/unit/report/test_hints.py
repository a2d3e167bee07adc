"""Hints for known errors of processes and of OBS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ma_boot.errors import StoreUnavailable
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.report.hint_search import MOST_HINTS, matches_in
from ma_boot.report.hint_table import END, ERROR, OBS, Hint, hint_table
from ma_boot.report.hints import hints_for, with_store_hint
from path_mapping.errors import Failure, MissingInputs, NoSpace, Refused, TransferFailed, Unreachable
from path_mapping.stores.responses import error_of_status

DOING = "listing obs://bucket/data/"


TABLE = hint_table()
OUTPUT_ROWS = [row for row in TABLE if row.where != OBS]
STORE_ROWS = [row for row in TABLE if row.where == OBS]
TEXTS: dict[str, dict[str, str]] = yaml.safe_load((Path(__file__).with_name("hint_texts.yaml")).read_text())
HEALTHY = Path(__file__).with_name("healthy_lines.txt").read_text()


def raised(words: str) -> str:
    """Returns the output of a process that raises an error with these words."""
    frame = '  File "/home/ma-user/train.py", line 7, in <module>\n    raise RuntimeError(words)'
    return f"step 1 loss 2.31\nTraceback (most recent call last):\n{frame}\nRuntimeError: {words}\n"


def printed(words: str) -> str:
    """Returns the output of a process that prints these words and ends."""
    return f"step 1 loss 2.31\n{words}\n"


def ids(output: str) -> list[str]:
    return [match.row.id for match in matches_in(output)]


@pytest.mark.parametrize("row", OUTPUT_ROWS, ids=lambda row: row.id)
def test_real_text_of_a_row_has_its_hint_first(row: Hint) -> None:
    for output in (raised(TEXTS[row.id]["real"]), printed(TEXTS[row.id]["real"])):
        assert ids(output)[:1] == [row.id]
        assert len(hints_for(output)) <= 2


@pytest.mark.parametrize("row", OUTPUT_ROWS, ids=lambda row: row.id)
def test_text_that_looks_alike_has_no_hint(row: Hint) -> None:
    assert hints_for(printed(TEXTS[row.id]["alike"])) == []


@pytest.mark.parametrize("row", STORE_ROWS, ids=lambda row: row.id)
def test_error_of_obs_has_the_hint_of_its_row(row: Hint) -> None:
    real, alike = TEXTS[row.id]["real"], TEXTS[row.id]["alike"]
    assert with_store_hint(real).endswith(f"\n  -> {row.english}")
    assert with_store_hint(alike) == alike


def test_rows_are_complete_and_unique() -> None:
    assert [row.id for row in TABLE] == list(TEXTS)
    for texts in ([row.id for row in TABLE], [row.english for row in TABLE], [row.chinese for row in TABLE]):
        assert len(set(texts)) == len(texts)
    for row in TABLE:
        groups = re.compile(row.expression).groups
        assert groups == row.english.count("{}") == row.chinese.count("{}"), row.id
        assert row.where in (ERROR, END, OBS)
        assert row.source
        assert " ".join(row.english.split()) == row.english


def test_codes_of_hccl_and_of_the_runtime_are_known() -> None:
    hccl = {f"EI00{n:02}" for n in range(1, 21)} | {f"EJ000{n}" for n in range(1, 5)}
    runtime = {"507014", "507015", "507018", "507033", "507035", "507046", "507053", "507054", "507899"}
    for code in hccl:
        assert hints_for(raised(f"HCCL function error: HcclX, error code is 1\nTitle({code}): reason")), code
    for code in runtime | {"107001", "107002", "107020", "207001", "207004", "207008"}:
        for words in (
            f"error code is {code}",
            f"call failed, ret[{code}]",
            f"retCode={code}",
            f"failed : {code} at",
        ):
            assert hints_for(raised(words)), words
        assert hints_for(printed(f"step {code} loss 2.31, {code} samples, file_{code}.bin")) == []


def test_lines_of_a_healthy_run_have_no_hint() -> None:
    lines = HEALTHY.splitlines()
    assert len(lines) > 60
    assert [line for line in lines if hints_for(printed(line))] == []
    assert hints_for(HEALTHY) == []


def test_frames_and_echoed_commands_have_no_hint() -> None:
    frame = '  File "/a/train.py", line 7, in f\n    raise OSError("No space left on device")'
    assert hints_for(f"Traceback (most recent call last):\n{frame}\nValueError: no such layer\n") == []
    assert hints_for(printed("+ echo 'No space left on device'\nexport HCCL_EXEC_TIMEOUT=1800")) == []


def test_error_that_was_handled_long_before_has_no_hint() -> None:
    assert hints_for(raised("No space left on device") + "step 2 loss 2.2\n" * 200) == []
    assert ids(raised("No space left on device")) == ["disk-full"]


def test_first_of_chained_exceptions_has_its_hint() -> None:
    chain = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert ids(raised("[Errno 28] No space left on device") + chain + raised("saving failed")) == [
        "disk-full"
    ]


def test_code_after_an_empty_line_of_the_message_has_its_hint() -> None:
    assert ids(
        raised("Preprocess failed before run graph 1.\n\n----\n- Ascend Error Message:\n----\nEI0006: x")
    ) == ["EI0006"]


def test_prefixes_of_ray_and_torch_hide_no_hint() -> None:
    assert ids("(TaskRunner pid=30188) RuntimeError: NPU function error: x, error code is 507018\n") == [
        "npu-aicpu-exception"
    ]
    assert ids(
        "[rank0]: " + raised("CUDA error: device-side assert triggered").replace("\n", "\n[rank0]: ")
    ) == ["cuda-assert"]


def test_hints_are_few_and_name_what_they_are_for() -> None:
    hints = hints_for("EI0004 EI0014 EI0017 EJ0001 retCode=0x91")
    assert len(hints) == MOST_HINTS == 3
    assert hints[0].startswith("EI0004: ")
    assert hints_for("all is well") == hints_for("") == []


def test_hint_names_the_figure_of_the_message() -> None:
    assert "had no 5.03 GiB left" in hints_for(raised(TEXTS["npu-oom"]["real"]))[0]


def test_figure_of_a_message_brings_no_control_characters() -> None:
    assert "\a" not in hints_for(raised("[Errno 2] No such file or directory: '/a\a.json'"))[0]


def test_special_version_of_a_rank_table_is_no_matter_of_devices() -> None:
    assert "choose the device" not in "".join(hints_for(raised(TEXTS["EI0014-version"]["real"])))


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
