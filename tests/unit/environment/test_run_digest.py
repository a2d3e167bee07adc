"""What two starts run: equal digests for the same, others for each change that may matter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ma_boot.node.environment.run_digest import run_digest
from ma_boot.report.job_ledger import RunDigest

ENVIRON = {"BATCH_SIZE": "32", "MA_CURRENT_IP": "10.0.0.1", "HOSTNAME": "a", "HF_TOKEN": "hf_secret_value_1"}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "code" / "model").mkdir(parents=True)
    (tmp_path / "code" / "train.py").write_text("import model")
    (tmp_path / "code" / "model" / "net.py").write_text("x = 1")
    (tmp_path / "mapping.py").write_text("{}")
    packages = tmp_path / "env" / "lib" / "python3.9" / "site-packages"
    (packages / "torch-2.1.0.dist-info").mkdir(parents=True)
    return tmp_path / "code"


def digest(
    code: Path, command: str = "ma_boot train.py", environ: dict[str, str] = ENVIRON, out: str = ""
) -> RunDigest:
    return run_digest(
        str(code),
        command,
        str(code.parent / "mapping.py"),
        str(code.parent / "env" / "bin" / "python"),
        environ=environ,
        without=[str(code / out)] if out else [],
    )


def test_same_files_and_words_have_the_same_digests(code: Path) -> None:
    before = digest(code)
    assert before.is_known
    os.utime(code / "train.py", (1, 1))
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "train.pyc").write_text("x")
    (code / "out").mkdir()
    (code / "out" / "step").write_text("x")
    assert digest(code, out="out") == before


def test_each_change_changes_its_own_digest(code: Path) -> None:
    before = digest(code)

    def changed(now: RunDigest) -> list[str]:
        return [name for name, was, is_now in zip(RunDigest._fields, before, now) if was != is_now]

    assert changed(digest(code, command="ma_boot train.py --lr 1")) == ["command"]
    assert changed(digest(code, environ={**ENVIRON, "BATCH_SIZE": "16"})) == ["environment"]
    assert changed(digest(code, environ={**ENVIRON, "HF_TOKEN": "hf_secret_value_2"})) == ["environment"]
    assert changed(digest(code, environ={**ENVIRON, "MABOOT_SUBMISSION": "5f1c"})) == ["environment"]
    of_the_start = {**ENVIRON, "MA_CURRENT_IP": "10.0.0.2", "HOSTNAME": "b", "X_SERVICE_HOST": "1"}
    assert changed(digest(code, environ=of_the_start)) == []
    (code / "model" / "net.py").write_text("x = 2")
    assert changed(digest(code)) == ["code"]
    (code.parent / "mapping.py").write_text("{ }")
    assert changed(digest(code)) == ["code", "mapping"]
    (code.parent / "env/lib/python3.9/site-packages/numpy-2.0.dist-info").mkdir()
    assert changed(digest(code)) == ["code", "mapping", "image"]


def test_missing_directory_and_file_are_unknown(code: Path) -> None:
    assert digest(code / "nothing").code == ""
    (code.parent / "mapping.py").unlink()
    assert digest(code).mapping == ""
