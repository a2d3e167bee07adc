"""The base images of the tests: built once per machine from Debian's packages, and kept between runs.

They also get what this machine needs to reach its package index (certificates, pip's settings), so that the
Dockerfile under test is the one that users have.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUITE, PACKAGES = "bookworm", "ca-certificates,python3,python3-venv"
OLD_SUITE, OLD_PACKAGES = "bullseye", "ca-certificates"  # glibc 2.31, where bookworm has 2.36
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
KEPT = "ma_boot.test.kept"
MAKE_ENVIRONMENT = Path(__file__).parents[2] / "examples" / "mindspore_cpu"
ENVIRONMENT = "/home/ma-user/anaconda3/envs/mindspore"
TAKEN = """
FROM {plain}
RUN sed -i 's/^users:/crew:/' /etc/group \\
 && echo 'builder:x:1000:1000::/home/builder:/bin/sh' >>/etc/passwd \\
 && echo 'ma-user:x:2001:2002::/srv:/bin/sh' >>/etc/passwd \\
 && printf 'builder:x:1000:\\nma-group:x:2002:\\n' >>/etc/group \\
 && mkdir -p /home/builder /home/ma-user/earlier \\
 && echo theirs >/home/ma-user/earlier/file && chown -R 2001:2002 /home/ma-user && chmod 700 /home/ma-user \\
 && mkdir -p /root/py/bin /root/py/lib && cp -r /usr/lib/python3.11 /root/py/lib \\
 && cp /usr/bin/python3.11 /root/py/bin/python && chmod 700 /root
STOPSIGNAL SIGKILL
USER builder
"""
OLD_TOOLKIT = """
FROM {bare}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv python3-dev gcc libc6-dev \\
 && rm -rf /var/lib/apt/lists/*
"""
OLD = """
FROM {toolkit} AS python
FROM {bare}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libexpat1 && rm -rf /var/lib/apt/lists/*
COPY --from=python /usr/bin/python3.9 /home/ma-user/anaconda3/envs/theirs/bin/python
COPY --from=python /usr/lib/python3.9 /home/ma-user/anaconda3/envs/theirs/lib/python3.9
ENV ANACONDA_DIR=/home/ma-user/anaconda3 DEFAULT_CONDA_ENV_NAME=theirs
"""
OLD_PYTHON = """
FROM {plain}
RUN rm /usr/bin/python3*
ADD python.tar {root}/
RUN chmod 700 /root && ln -s {root}/bin/python{version} /usr/local/bin/python3 && ln -s python3 /usr/local/bin/python
"""
CONDA = """
FROM {plain}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY make_env.py requirements.txt /made/
RUN python3 /made/make_env.py /home/ma-user/anaconda3 mindspore && rm -rf /root/.cache
ENV ANACONDA_DIR=/home/ma-user/anaconda3 DEFAULT_CONDA_ENV_NAME=mindspore
"""


def plain(client: Any) -> str:
    """Debian with Python; the first build takes about two minutes."""
    return _debian(client, "plain", SUITE, PACKAGES)


def taken(client: Any) -> str:
    """Uid 1000, gid 100, ma-user and ma-group belong to other accounts; one of them is the default user.

    It has a python below /root, which is closed to others, and another stop signal.
    """
    return _derived(client, "taken", TAKEN.format(plain=plain(client)), {})


def conda(client: Any) -> str:
    """A conda-style environment with MindSpore; the first build downloads about 1 GB."""
    files = {name: (MAKE_ENVIRONMENT / name).read_bytes() for name in ("make_env.py", "requirements.txt")}
    return _derived(client, "conda", CONDA.format(plain=plain(client)), files)


def old_toolkit(client: Any) -> str:
    """An older Debian with a Python, whose glibc asks for less than that of `plain`."""
    bare = _debian(client, "bare", OLD_SUITE, OLD_PACKAGES)
    return _derived(client, "old-toolkit", OLD_TOOLKIT.format(bare=bare), {})


def old(client: Any) -> str:
    """The older Debian without a Python on PATH; the training has one of its own, in conda's layout."""
    bare = _debian(client, "bare", OLD_SUITE, OLD_PACKAGES)
    return _derived(client, "old", OLD.format(bare=bare, toolkit=old_toolkit(client)), {})


def old_python(client: Any, python: Path) -> str:
    """Debian with no Python but `python`, an older one in a directory of its own, as images of MindSpore have."""
    root, version = python.resolve().parents[1], python.resolve().name[len("python") :]
    text = OLD_PYTHON.format(plain=plain(client), root=root, version=version)
    return _derived(client, f"python-{version}", text, {"python.tar": _tree(root, f"lib/python{version}")})


def _tree(root: Path, library: str) -> bytes:
    """The programs and the library of a Python, without its tests; the same bytes each time."""
    left_out = {"test", "tests", "__pycache__", "idlelib", "site-packages"}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted((*root.glob("bin/python*"), *root.glob("lib/lib*"), *(root / library).rglob("*"))):
            place = path.relative_to(root)
            if left_out.isdisjoint(place.parts) and not place.match("lib/*/config-*/*") and not path.is_dir():
                member = archive.gettarinfo(str(path), str(place))
                member.mtime = member.uid = member.gid = 0
                member.uname = member.gname = ""
                archive.addfile(member, io.BytesIO(path.read_bytes()) if member.isreg() else None)
    return content.getvalue()


def labelled(client: Any, base: str, label: str, session: str) -> str:
    """The base under a name of this session, with a label that everything built on it inherits."""
    name = base.partition(":")[0].rpartition("/")[2]
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "Dockerfile").write_text(f"FROM {base}\nLABEL {label}={session}\n")
        client.images.build(path=scratch, tag=f"{session}/base-{name}", rm=True, forcerm=True)
    return f"{session}/base-{name}"


def _derived(client: Any, name: str, text: str, files: Mapping[str, bytes]) -> str:
    tag = _tag(name, {"dockerfile": text, **{key: _digest(value) for key, value in files.items()}})
    if not client.images.list(tag):
        with tempfile.TemporaryDirectory() as scratch:
            for file, content in {"Dockerfile": text.encode(), **files}.items():
                (Path(scratch) / file).write_bytes(content)
            client.images.build(path=scratch, tag=tag, rm=True, forcerm=True, labels={KEPT: name})
    return tag


def _debian(client: Any, name: str, suite: str, packages: str) -> str:
    settings = {"packages": packages, "pip": _pip_settings(), "certificates": _digest(_certificates())}
    tag = _tag(name, settings)
    if not client.images.list(tag):
        with tempfile.TemporaryDirectory() as scratch:
            _import(Path(scratch), name, suite, packages, tag)
    return tag


def _import(scratch: Path, name: str, suite: str, packages: str, tag: str) -> None:
    root = scratch / "root"
    include = f"--include={packages}"
    _run("debootstrap", "--variant=minbase", include, suite, str(root), log=scratch / "debootstrap.log")
    (root / CERTIFICATES[1:]).write_text(_certificates())
    (root / "etc/pip.conf").write_text(_pip_configuration())
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    _run(
        "tar",
        "--numeric-owner",
        "-C",
        str(root),
        "-cf",
        str(scratch / "root.tar"),
        ".",
        log=scratch / "tar.log",
    )
    label = f'LABEL {KEPT}="{name}"'
    _run("docker", "import", "--change", label, str(scratch / "root.tar"), tag, log=scratch / "import.log")


def _run(*command: str, log: Path) -> None:
    with log.open("w") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{log.read_text()[-2000:]}"


def _tag(name: str, recipe: Mapping[str, Any]) -> str:
    return f"ma-boot-test/{name}:{_digest(json.dumps(recipe, sort_keys=True))[:12]}"


def _digest(content: Any) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def _certificates() -> str:
    """The CA certificates that this machine trusts."""
    paths = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, CERTIFICATES)
    return next(Path(path).read_text() for path in paths if path and Path(path).is_file())


def _pip_configuration() -> str:
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in _pip_settings()), ""])


def _pip_settings() -> list[tuple[str, str]]:
    """This machine's pip settings, without file: URLs, which a container cannot reach."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    wanted = {"index-url", "extra-index-url", "trusted-host", "default-timeout", "timeout"}
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines()):
        place, _, value = line.partition("=")
        name = place.rpartition(".")[2]
        words = [word for word in value.strip("'").split() if not word.startswith("file:")]
        if name in wanted and words:
            settings["timeout" if name == "default-timeout" else name] = " ".join(words)
    return [("cert", CERTIFICATES), *sorted(settings.items())]
