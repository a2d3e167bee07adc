"""A push to a real registry with a login; a pull returns the same digest."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.container.conftest import SESSION, Built, Ran
from tests.container.registry import ACCESS_KEY, PASSWORD, REGION, SECRET_KEY, USER, breaking, registry

LOGIN = {"SWR_USERNAME": USER, "SWR_PASSWORD": PASSWORD}
KEYS = {"OBS_ACCESS_KEY_ID": ACCESS_KEY, "OBS_SECRET_ACCESS_KEY": SECRET_KEY}
Push = Callable[..., Ran]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def push(ma_boot: Callable[..., Ran], derived: Callable[..., str], engine: Any) -> Push:
    """Pushes an image with a new layer, and checks that no secret is printed."""

    def run(to: str, name: str, environ: dict[str, str], *more: str) -> Ran:
        image = derived(name, f"RUN head -c 3000000 /dev/urandom >/home/ma-user/{name}")
        where = ("--region", REGION, "--organization", "org", "--registry", to)
        done = ma_boot("image", "push", image, *where, "--name", f"{SESSION}-{name}", *more, environ=environ)
        shown = done.output + done.errors
        assert not [secret for secret in (PASSWORD, SECRET_KEY, "planted") if secret in shown]
        assert [tag for tag in engine.images.get(image).tags if to in tag] == []
        return done

    return run


def test_a_pull_returns_the_same_digest(push: Push, host: str, engine: Any) -> None:
    done = push(host, "back", LOGIN, "--tag", "v1", "--command", "ma_boot --version")
    assert done.code == 0, done.errors
    digest = re.search(r"sha256:[0-9a-f]{64}", done.output)
    assert digest
    auth = {"username": USER, "password": PASSWORD}
    repository = f"{host}/org/{SESSION}-back"
    pulled = engine.images.pull(repository, tag="v1", auth_config=auth)
    try:
        assert f"{repository}@{digest.group()}" in pulled.attrs["RepoDigests"]
        assert pulled.id == engine.images.get(f"{SESSION}/back").id
    finally:
        engine.images.remove(f"{repository}:v1", force=True)
    assert re.search(rf"^image +org/{SESSION}-back:v1$", done.output, re.M)
    assert re.search(r"^boot command +ma_boot --version$", done.output, re.M)
    assert re.search(r"^user id +1000$", done.output, re.M)
    assert re.search(r"^environment +RANK_TABLE_FILE=/user/config", done.output, re.M)
    assert re.search(r"^layer \w+: pushed, \d", done.output, re.M)


def test_the_long_term_login_is_derived_from_the_keys(push: Push, host: str) -> None:
    done = push(host, "hmac", KEYS)
    assert done.code == 0, done.errors


def test_the_login_of_the_docker_config(push: Push, host: str, tmp_path: Path) -> None:
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"auth": login}}}))
    done = push(host, "config", {"DOCKER_CONFIG": str(tmp_path)})
    assert done.code == 0, done.errors


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {**LOGIN, "SWR_PASSWORD": "planted-and-wrong"},
            f"rejected {USER} (from SWR_USERNAME and SWR_PASSWORD)",
        ),
        (
            {**KEYS, "OBS_SECRET_ACCESS_KEY": "planted-and-wrong"},
            f"rejected {REGION}@****** (from OBS_",
        ),
    ],
    ids=["password", "keys"],
)
def test_wrong_credentials(push: Push, host: str, environ: dict[str, str], message: str) -> None:
    done = push(host, "wrong", environ)
    assert done.code == 69
    assert message in done.errors


def test_no_credentials(push: Push, host: str) -> None:
    done = push(host, "none", {})
    assert done.code == 78
    assert f"no credentials for {host}" in done.errors
    assert "SWR_USERNAME" in done.errors


def test_an_image_that_fails_the_check_is_not_pushed(
    ma_boot: Callable[..., Ran], derived: Callable[..., str], host: str
) -> None:
    image = derived("refused", "ENV MA_X=1")
    where = ("--region", REGION, "--organization", "org", "--registry", host)
    done = ma_boot("image", "push", image, *where, environ=LOGIN)
    assert done.code == 65
    assert "ENV MA_X is reserved for the platform" in done.output


def test_a_registry_that_drops_every_connection(push: Push, host: str) -> None:
    with breaking(host, lambda data: True) as broken:
        done = push(broken, "dropped", LOGIN)
    assert done.code == 69
    assert f"{broken} did not respond as a registry" in done.errors
    assert "push again" in done.errors


@pytest.fixture
def uploads(push: Push, host: str) -> Iterator[Callable[[str, Callable[[bytes], bool]], Future[Ran]]]:
    """Pushes through breaking proxies, in parallel, since the engine waits longer after each attempt."""
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:

        def pushing(name: str, breaks: Callable[[bytes], bool]) -> Future[Ran]:
            return pool.submit(push, stack.enter_context(breaking(host, breaks)), name, LOGIN)

        yield pushing


def test_a_registry_that_drops_uploads(uploads: Callable[..., Future[Ran]]) -> None:
    """The engine tries each layer five times, over almost a minute, before it gives up."""
    broken: list[bytes] = []

    def first_upload(data: bytes) -> bool:
        is_upload = data.startswith(b"PATCH") and not broken
        broken.extend([data] if is_upload else [])
        return is_upload

    each = uploads("cut", lambda data: data.startswith((b"PATCH", b"PUT")))
    once = uploads("once", first_upload)
    assert once.result().code == 0, once.result().errors
    assert broken
    assert each.result().code == 69
    assert "did not respond as a registry" in each.result().errors
    assert all("retrying" in push.result().output for push in (each, once))


def test_no_registry_listens(push: Push) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        free = f"127.0.0.1:{reserved.getsockname()[1]}"
    done = push(free, "nobody", LOGIN)
    assert done.code == 69
    assert f"{free} did not respond as a registry" in done.errors


@pytest.mark.parametrize("missing", ["--region", "--organization"])
def test_required_options(ma_boot: Callable[..., Ran], good: Built, missing: str) -> None:
    given = {"--region": REGION, "--organization": "org"}
    del given[missing]
    done = ma_boot("image", "push", good.tag, *[word for pair in given.items() for word in pair])
    assert done.code == 64
    assert missing in done.errors
