"""The digest of a code directory: equal for equal code, wherever it lies, and unknown rather than wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ma_boot.node.environment import code_digest
from ma_boot.node.environment.code_digest import CodeFile, code_root, combine, digest_of_code


def code(directory: Path, **contents: str) -> str:
    for name, content in {"train.py": "print(1)", "config/a.yaml": "lr: 1", **contents}.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)
    return str(directory)


def test_copies_of_the_same_code_have_the_same_digest(tmp_path: Path) -> None:
    first, second = code(tmp_path / "a"), code(tmp_path / "b")
    os.utime(tmp_path / "b" / "train.py", (0, 0))
    found = digest_of_code(first)
    assert found == digest_of_code(second)
    assert (len(found.digest), found.files, found.size, found.why) == (16, 2, 13, "")


@pytest.mark.parametrize("changed", [{"train.py": "print(2)"}, {"more.py": ""}, {"config/a.yaml": "lr: 2"}])
def test_a_changed_or_new_file_changes_the_digest(tmp_path: Path, changed: dict[str, str]) -> None:
    assert digest_of_code(code(tmp_path / "a")) != digest_of_code(code(tmp_path / "b", **changed))


def test_a_renamed_file_changes_the_digest(tmp_path: Path) -> None:
    before = digest_of_code(code(tmp_path)).digest
    (tmp_path / "train.py").rename(tmp_path / "main.py")
    assert digest_of_code(str(tmp_path)).digest != before


def test_generated_files_and_those_left_out_do_not_change_the_digest(tmp_path: Path) -> None:
    before = digest_of_code(code(tmp_path))
    code(
        tmp_path,
        **{"__pycache__/train.pyc": "x", "rank_0/om/a": "x", ".git/HEAD": "x", "out/step.ckpt": "x"},
    )
    assert digest_of_code(str(tmp_path), [f"{tmp_path}/out"])._replace(commit="") == before


def test_hidden_settings_are_code(tmp_path: Path) -> None:
    before = digest_of_code(code(tmp_path)).digest
    (tmp_path / ".env").write_text("LR=1")
    with_settings = digest_of_code(str(tmp_path)).digest
    (tmp_path / ".conf").mkdir()
    (tmp_path / ".conf" / "model.yaml").write_text("layers: 2")
    assert len({before, with_settings, digest_of_code(str(tmp_path)).digest}) == 3


def test_the_order_of_files_does_not_matter_and_names_are_kept_apart_from_contents() -> None:
    one, two = CodeFile("a", "1"), CodeFile("b", "2")
    assert combine([one, two]) == combine([two, one])
    assert combine([CodeFile("a1b", "2")]) != combine([one, two])


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "loop").symlink_to("..")
    (tmp_path / "code" / "gone").symlink_to("/nowhere")
    assert digest_of_code(str(tmp_path / "code")).files == 2


@pytest.mark.parametrize("bound", ["MOST_FILES", "MOST_BYTES"])
def test_a_directory_over_a_bound_has_no_digest(
    tmp_path: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_digest, bound, 1)
    found = digest_of_code(code(tmp_path))
    assert (found.digest, "more than" in found.why) == ("", True)


def test_an_empty_or_missing_directory_has_no_digest(tmp_path: Path) -> None:
    assert digest_of_code(str(tmp_path)).why == "it has no files"
    assert "No such file" in digest_of_code(str(tmp_path / "gone")).why


def test_code_has_what_is_beside_the_directory_of_the_script(tmp_path: Path) -> None:
    scripts = tmp_path / "project" / "scripts"
    scripts.mkdir(parents=True)
    project, job_dir = str(tmp_path / "project"), str(tmp_path / "job")
    assert code_root(str(scripts), str(tmp_path), "/", "/home") == str(tmp_path), "ModelArts' code directory"
    assert code_root(str(scripts), job_dir, project, "/home") == project, "the working directory"
    assert code_root(str(scripts), job_dir, str(tmp_path), str(tmp_path)) == str(scripts), "but not a home"
    assert code_root(None, job_dir, project, "/home") == ""
    (tmp_path / "project" / ".git").mkdir()
    assert code_root(str(scripts), job_dir, str(scripts), "/home") == project, "a repository"
