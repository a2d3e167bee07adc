"""A real container engine, the images that tests share, and a check that nothing is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.container import bases
from tests.container.leftovers import LABEL, Leftovers
from tests.requirement import unavailable

ROOT = Path(__file__).parents[2]
CONTEXT = ("Dockerfile", ".dockerignore", "entrypoint", "pyproject.toml", "README.md", "LICENSE")
PACKAGES = ("image", "ma_boot", "path_mapping")
PROGRAMS = ("debootstrap", "docker", "docker-registry", "openssl")
SECRET = "planted-5e2c"
INDEX = f"https://reader:{SECRET}@index.invalid/simple"
SESSION = f"maboot-image-test-{uuid.uuid4().hex[:8]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs an engine, and may have to wait for a busy one."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("container")
            item.add_marker(pytest.mark.timeout(900))


@dataclass(frozen=True)
class Ran:
    """How a `ma_boot` command ended."""

    code: int
    output: str
    errors: str


@dataclass(frozen=True)
class Built:
    """An image built from our Dockerfile, and the output of the build."""

    tag: str
    id: str
    output: str


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """The engine; without one, or without a program that is needed, the tests are skipped."""
    import docker
    from docker.errors import DockerException

    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        unavailable(
            f"{', '.join(missing)}: not installed (Debian: debootstrap docker.io docker-registry openssl)"
        )
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except DockerException as error:
        unavailable(f"no container engine answers: {error}")
    if os.geteuid() != 0:
        unavailable("not root, which debootstrap needs")
    yield client
    client.close()


@pytest.fixture(scope="session", autouse=True)
def nothing_left(engine: Any) -> Iterator[Leftovers]:
    """After the last test no container, network, volume or image of this session is left."""
    leftovers = Leftovers(engine, SESSION)
    yield leftovers
    leftovers.remove_images()
    assert leftovers.remaining() == []


@pytest.fixture(autouse=True)
def nothing_left_by_this_test(nothing_left: Leftovers) -> Iterator[None]:
    """Each test removes its own containers, networks and volumes."""
    yield
    assert nothing_left.running() == []


@pytest.fixture(scope="session")
def plain(engine: Any, nothing_left: Leftovers) -> str:
    """Plain Debian with Python."""
    return bases.labelled(engine, bases.plain(engine), LABEL, SESSION)


@pytest.fixture(scope="session")
def taken(engine: Any, nothing_left: Leftovers) -> str:
    """A base on which uid 1000, gid 100 and their names are taken."""
    return bases.labelled(engine, bases.taken(engine), LABEL, SESSION)


@pytest.fixture(scope="session")
def conda(engine: Any, nothing_left: Leftovers) -> str:
    """A base with a conda-style environment that has MindSpore."""
    return bases.labelled(engine, bases.conda(engine), LABEL, SESSION)


@pytest.fixture(scope="session")
def old(engine: Any, nothing_left: Leftovers) -> str:
    """An older Debian without a Python of its own."""
    return bases.labelled(engine, bases.old(engine), LABEL, SESSION)


@pytest.fixture(scope="session")
def old_python(engine: Any, nothing_left: Leftovers) -> str:
    """Debian whose only Python is too old for the toolkit, but not for what the training imports of it."""
    versions = Path.home() / ".pyenv" / "versions"
    pythons = [place for minor in (7, 8) for place in versions.glob(f"3.{minor}.*/bin/python3.{minor}")]
    if not pythons:
        unavailable("no Python 3.7 or 3.8 in pyenv")
    return bases.labelled(engine, bases.old_python(engine, pythons[0]), LABEL, SESSION)


@pytest.fixture(scope="session")
def old_toolkit(engine: Any, nothing_left: Leftovers) -> str:
    """The same Debian with a Python."""
    return bases.labelled(engine, bases.old_toolkit(engine), LABEL, SESSION)


@pytest.fixture(scope="session")
def ma_boot(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ran]:
    """Runs `ma_boot` as a user does, with its own docker config and credentials."""
    config = tmp_path_factory.mktemp("docker-config")

    def run(
        *arguments: str,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> Ran:
        kept = ("PATH", "HOME", "DOCKER_HOST", "LANG")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "ma_boot", *arguments],
            capture_output=True,
            text=True,
            cwd=cwd or ROOT,
            env={**own, "DOCKER_CONFIG": str(config), **(environ or {})},
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build context: the project's files."""
    return make_context(tmp_path_factory.mktemp("context"))


def make_context(place: Path) -> Path:
    """Copies what a fresh clone has, without files that were put into image/."""
    for name in CONTEXT:
        shutil.copy2(ROOT / name, place / name)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("wheels", "environment", "code"):
        for theirs in (place / "image" / name).iterdir():
            if theirs.name != "README.md":
                shutil.rmtree(theirs) if theirs.is_dir() else theirs.unlink()
    return place


Build = Callable[[str, str, Path, Sequence[str]], Built]


@pytest.fixture(scope="session")
def build(engine: Any, ma_boot: Callable[..., Ran]) -> Build:
    """Builds our Dockerfile on a base, with `ma_boot image build`, which checks it too."""

    def make(name: str, base: str, context: Path, arguments: Sequence[str]) -> Built:
        tag = f"{SESSION}/{name}"
        options = [word for argument in arguments for word in ("--build-arg", argument)]
        done = ma_boot(
            "image", "build", str(context), "--tag", tag, "--build-arg", f"BASE_IMAGE={base}", *options
        )
        assert done.code == 0, done.output + done.errors
        return Built(tag, str(engine.images.get(tag).id), done.output)

    return make


@pytest.fixture(scope="session")
def good(build: Build, plain: str, context: Path) -> Built:
    """An image on plain Debian that passes every rule."""
    return build("good", plain, context, [])


@pytest.fixture(scope="session")
def wheels(engine: Any, good: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels that image/wheels/README.md describes, built with the base's Python."""
    place = tmp_path_factory.mktemp("wheels")
    (stage,) = engine.images.list(filters={"label": [f"{LABEL}={SESSION}", "ma_boot.stage=toolkit"]})
    command = "pip wheel -q --wheel-dir /wheels -r image/toolkit.txt -r image/toolkit-build.txt"
    engine.containers.run(
        stage.id, ["sh", "-c", f"/tmp/wheel/bin/{command}"], remove=True, volumes=[f"{place}:/wheels"]
    )
    return place


@pytest.fixture(scope="session")
def offline(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A context with wheels and requirements of the training."""
    context = make_context(tmp_path_factory.mktemp("offline"))
    for wheel in wheels.iterdir():
        shutil.copy2(wheel, context / "image" / "wheels" / wheel.name)
    (context / "image" / "environment" / "requirements.txt").write_text("tenacity\n")
    return context


@pytest.fixture(scope="session")
def on_taken(build: Build, taken: str, offline: Path) -> Built:
    """Toolkit and training environment are below /root, which the base keeps closed."""
    arguments = [
        "PIP_NO_INDEX=1", f"PIP_INDEX_URL={INDEX}", "ANACONDA_DIR=/root/anaconda3", "TOOLKIT_PYTHON=/root/py/bin/python",
    ]  # fmt: skip
    return build("taken", taken, offline, arguments)


@pytest.fixture(scope="session")
def on_conda(build: Build, conda: str, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    context = make_context(tmp_path_factory.mktemp("conda"))
    for wheel in wheels.iterdir():
        shutil.copy2(wheel, context / "image" / "wheels" / wheel.name)
    return build("conda", conda, context, ["PIP_NO_INDEX=1"])


@pytest.fixture(scope="session")
def on_old(build: Build, old: str, old_toolkit: str, context: Path) -> Built:
    """On a base without Python; the toolkit brings one along."""
    return build("old", old, context, [f"TOOLKIT_IMAGE={old_toolkit}"])


@pytest.fixture(scope="session")
def derived(engine: Any, good: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Builds an image of a few layers on the good one."""

    def make(name: str, lines: str) -> str:
        place = tmp_path_factory.mktemp("derived")
        (place / "Dockerfile").write_text(f"FROM {good.tag}\n{lines}\n")
        tag = f"{SESSION}/{name}"
        engine.images.build(path=str(place), tag=tag, rm=True, forcerm=True)
        return tag

    return make
