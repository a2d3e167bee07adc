"""The unmodified Dockerfile on different bases: what is in the image, what is not, and how large it gets."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.container import bases
from tests.container.conftest import SECRET, SESSION, Build, Built, Ran, make_context
from tests.container.images import grown, inside
from tests.requirement import unavailable

CREDENTIALS = (
    ".git/config", ".gitconfig", ".git-credentials", ".env", ".env.local", ".netrc", ".ssh/config", "id_rsa",
    "id_ed25519", "server.pem", "server.key", ".aws/credentials", ".kube/config", ".docker/config.json",
    ".obsutilconfig", ".s3cfg", "credentials-1.csv", ".pypirc", ".npmrc", "pip.conf", ".huggingface/token",
)  # fmt: skip
TOOLKIT_BYTES = 120_000_000


def test_on_plain_debian(good: Built, plain: str, engine: Any) -> None:
    assert f"{good.tag}: ready for ModelArts" in good.output
    assert grown(engine, good.tag, plain) < TOOLKIT_BYTES
    assert inside(engine, good.tag, "id", "-u") == "1000"
    assert inside(engine, good.tag, "pwd") == "/home/ma-user"
    assert engine.images.get(good.tag).attrs["Config"]["Env"] == [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "ANACONDA_DIR=/home/ma-user/anaconda3",
        "DEFAULT_CONDA_ENV_NAME=training",
        "PYTHONUNBUFFERED=1",
    ]


def test_on_a_base_where_the_ids_and_names_are_taken(on_taken: Built, engine: Any) -> None:
    assert f"{on_taken.tag}: ready for ModelArts" in on_taken.output
    assert inside(engine, on_taken.tag, "id") == "uid=1000(ma-user) gid=100(crew) groups=100(crew)"
    assert "builder" not in inside(engine, on_taken.tag, "cat", "/etc/passwd")
    assert inside(engine, on_taken.tag, "cat", "/home/ma-user/earlier/file") == "theirs"
    assert (
        inside(engine, on_taken.tag, "sh", "-c", "echo x >/home/ma-user/earlier/mine && echo well") == "well"
    )


def test_the_training_environment_has_its_requirements(on_taken: Built, engine: Any) -> None:
    python = "/root/anaconda3/envs/training/bin/python"
    assert (
        inside(engine, on_taken.tag, python, "-c", "import tenacity; print(tenacity.__name__)") == "tenacity"
    )
    assert inside(engine, on_taken.tag, "readlink", "-f", python) == python


def test_python_below_root_is_reachable_and_other_files_there_are_not(on_taken: Built, engine: Any) -> None:
    assert inside(engine, on_taken.tag, "ma_boot", "--version").startswith("ma_boot")
    assert inside(engine, on_taken.tag, "sh", "-c", "ls /root 2>&1 || true").endswith("Permission denied")
    assert engine.images.get(on_taken.tag).attrs["Config"]["StopSignal"] == "SIGTERM"


def test_an_environment_has_one_python(good: Built, engine: Any) -> None:
    for place in ("/opt/ma_boot", "/home/ma-user/anaconda3/envs/training"):
        command = f"find {place}/bin -name 'python*' -type f | wc -l"
        assert inside(engine, good.tag, "sh", "-c", command) == "1"


def test_on_a_conda_environment_with_mindspore(on_conda: Built, conda: str, engine: Any) -> None:
    assert f"{on_conda.tag}: ready for ModelArts" in on_conda.output
    assert grown(engine, on_conda.tag, conda) < TOOLKIT_BYTES


def test_no_credential_of_the_index_is_in_the_image(on_taken: Built, engine: Any) -> None:
    image = engine.images.get(on_taken.tag)
    assert SECRET not in str(image.history()) + str(image.attrs) + on_taken.output
    search = f"grep -rls {SECRET} /opt /home /etc /tmp /usr/local || true"
    assert inside(engine, on_taken.tag, "sh", "-c", search, user="0") == ""


def test_a_change_of_the_code_changes_one_layer(
    build: Build, engine: Any, plain: str, good: Built, tmp_path: Path
) -> None:
    context = make_context(tmp_path)
    (context / "image" / "code" / "train.py").write_text("print('trained')\n")
    changed = build("changed", plain, context, [])
    before, after = (engine.images.get(image.tag).attrs["RootFS"]["Layers"] for image in (good, changed))
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]
    assert inside(engine, changed.tag, "cat", "/home/ma-user/code/train.py") == "print('trained')"


@pytest.mark.invariant("No login appears in an argument, a log or an image")
def test_the_engine_gets_only_what_is_copied(engine: Any, plain: str, context: Path, tmp_path: Path) -> None:
    shutil.copytree(context, tmp_path / "clone")
    clone = tmp_path / "clone"
    top = (".git/config", ".env", "credentials.csv", ".venv/pyvenv.cfg", "ma_boot/__pycache__/x.pyc")
    below = [f"image/code/{deep}{name}" for name in CREDENTIALS for deep in ("", "sub/deep/")]
    for name in (*top, *below, "image/environment/.env", "image/wheels/pip.conf"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(SECRET)
    (clone / "Dockerfile").write_text(f"FROM {plain}\nCOPY . /context\n")
    tag = f"{SESSION}/context"
    engine.images.build(path=str(clone), tag=tag, rm=True, forcerm=True)
    assert inside(engine, tag, "sh", "-c", f"grep -rl {SECRET} /context || true") == ""
    assert "entrypoint" in inside(engine, tag, "ls", "/context")
    assert inside(engine, tag, "find", "/context/image", "-name", "README.md") == "/context/image/README.md"


def test_without_network_by_buildkit(engine: Any, plain: str, offline: Path) -> None:
    docker = next(filter(has_buildkit, commands("docker")), "")
    if not docker:
        unavailable("no docker command with BuildKit (Debian: docker.io of bookworm, or docker-buildx)")
    tag = f"{SESSION}/buildkit"
    arguments = [f"BASE_IMAGE={plain}", "PIP_NO_INDEX=1"]
    options = [word for argument in arguments for word in ("--build-arg", argument)]
    done = subprocess.run(
        [docker, "build", "--network", "none", "--progress", "plain", "--tag", tag, *options, str(offline)],
        capture_output=True, text=True, env={**os.environ, "DOCKER_BUILDKIT": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert inside(engine, tag, "ma_boot", "--version").startswith("ma_boot")
    assert inside(engine, tag, "id", "-u") == "1000"


def commands(name: str) -> list[str]:
    """Every program of that name on PATH."""
    places = os.environ.get("PATH", "").split(os.pathsep)
    programs: list[str | None] = [shutil.which(name, path=place) for place in places]
    return [path for path in programs if path]


def has_buildkit(docker: str) -> bool:
    """Only `docker build` with BuildKit has the option --secret."""
    known = subprocess.run(
        [docker, "build", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "DOCKER_BUILDKIT": "1"},
    )
    return "--secret" in known.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--build-arg", "TOOLKIT_PYTHON=/nowhere/python"], 78, "make image TOOLKIT_PYTHON=/path"),
        (["--build-arg", "BASE_IMAGE=127.0.0.1:1/absent"], 78, "127.0.0.1:1"),
        (["--build-arg", "BASE_IMAGE=no-such-host.invalid/absent"], 78, "make image BASE_IMAGE=NAME"),
        (["--build-arg", "UNSET_HERE"], 64, "UNSET_HERE is not set in the environment"),
        (["--tag", "Not A Tag"], 64, "invalid image name"),
        (["--size-budget", "0.1"], 65, "the budget is 0.1 GB: see `docker history"),
    ],
    ids=["python", "base", "host", "argument", "tag", "budget"],
)
def test_a_failed_build_reports_why(
    plain: str,
    good: Built,
    ma_boot: Callable[..., Ran],
    context: Path,
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    base = ["--build-arg", f"BASE_IMAGE={plain}", "--tag", f"{SESSION}/fails"]
    done = ma_boot("image", "build", str(context), *base, *arguments)
    assert done.code == code, done.errors
    assert reason in done.errors
    assert "\x1b" not in done.errors + done.output


def test_a_python_without_virtual_environments_is_named(
    engine: Any, plain: str, ma_boot: Callable[..., Ran], context: Path, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {plain}\nRUN rm -r /usr/lib/python3.11/ensurepip\n")
    engine.images.build(path=str(tmp_path), tag=f"{SESSION}/no-venv", rm=True, forcerm=True)
    given = [f"BASE_IMAGE={SESSION}/no-venv", "TOOLKIT_PYTHON=/usr/bin/python3.11"]
    options = [word for argument in given for word in ("--build-arg", argument)]
    done = ma_boot("image", "build", str(context), "--tag", f"{SESSION}/fails", *options)
    assert done.code == 78, done.output
    assert "install its package (python3-venv, python3-pip) in BASE_IMAGE" in done.errors
    assert "make image TOOLKIT_PYTHON=/path" in done.errors


def test_a_context_that_cannot_be_packed(engine: Any, ma_boot: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "large").write_bytes(bytes(200_000))
    limited = ["prlimit", "--fsize=65536"]  # as a disk that is full
    done = ma_boot("image", "build", str(tmp_path), "--tag", f"{SESSION}/fails", prefix=limited)
    assert done.code == 73, done.errors
    assert f"the build context {tmp_path} cannot be packed" in done.errors


def test_a_directory_without_a_dockerfile(ma_boot: Callable[..., Ran], engine: Any, tmp_path: Path) -> None:
    done = ma_boot("image", "build", str(tmp_path))
    assert done.code == 66
    assert f"no Dockerfile in {tmp_path}" in done.errors


def test_a_second_environment_needs_a_name(
    conda: str, on_conda: Built, ma_boot: Callable[..., Ran], offline: Path
) -> None:
    options = ["--tag", f"{SESSION}/second", "--build-arg", "PIP_NO_INDEX=1"]
    done = ma_boot("image", "build", str(offline), *options, "--build-arg", f"BASE_IMAGE={conda}")
    assert done.code == 78
    assert (
        f"the base brings {bases.ENVIRONMENT}, and there is image/environment/requirements.txt" in done.errors
    )


def test_the_earlier_image_of_the_tag_is_removed(
    engine: Any, plain: str, ma_boot: Callable[..., Ran], good: Built, tmp_path: Path
) -> None:
    from docker.errors import ImageNotFound

    clone = make_context(tmp_path)
    options = ["--tag", f"{SESSION}/again", "--build-arg", f"BASE_IMAGE={plain}"]
    ids = []
    for text in ("first", "second"):
        (clone / "image" / "code" / "train.py").write_text(text)
        assert ma_boot("image", "build", str(clone), *options).code == 0
        ids.append(engine.images.get(f"{SESSION}/again").id)
    with pytest.raises(ImageNotFound):
        engine.images.get(ids[0])
