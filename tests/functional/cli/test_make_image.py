"""Variables of `make image` and `make push`, and the commands that they run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def commands(*words: str, environ: dict[str, str] | None = None) -> str:
    """Returns the commands that make would run."""
    done = subprocess.run(
        ["make", "--dry-run", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **(environ or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_build_arguments_are_passed_by_name() -> None:
    names = ["BASE_IMAGE", "TOOLKIT_PYTHON", "TRAINING_PYTHON", "ANACONDA_DIR", "CONDA_ENV", "PIP_INDEX_URL"]
    made = commands("image", *[f"{name}=https://me:planted@{name}" for name in names], "PLATFORM=linux/arm64")
    assert all(f"--build-arg {name} " in made for name in names)
    assert "--platform linux/arm64" in made
    assert "planted" not in made


def test_conda_of_the_shell_is_not_passed_to_the_image() -> None:
    environ = {"ANACONDA_DIR": "/me/conda", "CONDA_ENV": "mine", "TOOLKIT_PYTHON": "/x", "PIP_NO_INDEX": "1"}
    made = commands("image", environ=environ)
    assert [name for name in environ if f"--build-arg {name} " in made] == ["TOOLKIT_PYTHON", "PIP_NO_INDEX"]


def test_registry_and_architecture_are_passed_on() -> None:
    made = commands("push", "REGION=r", "ORGANIZATION=o", "IMAGE=x", "REGISTRY=h:5000", "ARCH=aarch64")
    assert "--registry h:5000 --arch aarch64" in made


def test_rehearsal_in_containers_installs_no_mindspore_on_this_machine() -> None:
    assert "make_env.py" not in commands("rehearse-docker", "IMAGE=x", "REHEARSAL=/nowhere")
    assert "make_env.py" in commands("rehearse", "REHEARSAL=/nowhere")


@pytest.mark.parametrize("target", ["image", "image-check", "push", "rehearse", "resume", "rehearse-docker"])
def test_targets_of_users_install_no_tools_of_developers(target: str) -> None:
    made = commands(target, "IMAGE=x", "REGION=r", "ORGANIZATION=o", "TOOLKIT=/nowhere", "VENV=/no/dev")
    assert "[dev]" not in made
    assert "/no/dev" not in made
    assert "'.[image]'" in made


def test_rehearsals_of_the_example_have_the_same_ranks_and_begin_without_checkpoints() -> None:
    """Else the second one finds checkpoints of other ranks, and ends with 78."""
    targets = ("rehearse", "resume", "rehearse-docker")
    made = {target: commands(target, "IMAGE=x", "REHEARSAL=/nowhere") for target in targets}
    assert {
        target: re.findall(r"--nodes \S+ --devices-per-node \S+", text) for target, text in made.items()
    } == {target: ["--nodes 2 --devices-per-node 2"] for target in targets}
    begins = {
        target: "rm -rf /nowhere/obs/ma-boot-example/checkpoints" in text for target, text in made.items()
    }
    assert begins == {"rehearse": True, "resume": False, "rehearse-docker": True}


def test_example_images_need_only_the_standard_library(tmp_path: Path) -> None:
    script = ROOT / "examples" / "mindspore_cpu" / "make_images.py"
    subprocess.run([sys.executable, "-I", "-S", script, tmp_path / "x", "--images", "50"], check=True)
    for name in ("data_batch_1.bin", "data_batch_5.bin", "test_batch.bin"):
        content = (tmp_path / "x" / name).read_bytes()
        assert len(content) == 10 * (1 + 3 * 32 * 32)
        assert set(content[:: 1 + 3 * 32 * 32]) <= set(range(10))
        assert len(set(content)) > 150


@pytest.mark.parametrize("program", ["codespell", "shellcheck", "hadolint"])
def test_check_runs_each_linter(program: str) -> None:
    assert f"bin/{program} " in commands("check")


def test_clone_has_line_ends_of_linux(tmp_path: Path) -> None:
    """Git may be configured to write Windows' line ends, as its installer for Windows does."""
    for name in (".gitattributes", "entrypoint"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    git = ["git", "-c", "core.autocrlf=true", "-c", "user.name=x", "-c", "user.email=x@y"]
    for words in ("init -q", "add .", "commit -qm x", "rm -q entrypoint", "checkout -q HEAD -- entrypoint"):
        subprocess.run([*git, *words.split()], cwd=tmp_path, check=True)
    assert b"\r" not in (tmp_path / "entrypoint").read_bytes()
