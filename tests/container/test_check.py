"""Deliberately wrong images, each a few layers on a good one, and what `ma_boot image check` reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Callable

import pytest

from ma_boot.desk.image.rules.facts import LABEL
from tests.container.conftest import SESSION, Built, Ran
from tests.container.leftovers import LABEL as TEST_LABEL
from tests.container.registry import breaking
from tests.functional.node import eventually

ENVIRONMENT = "/home/ma-user/anaconda3/envs/training"
SECRET = "planted-7d1f"
ANOTHER = "printf '#!/bin/sh\\necho trained\\n' >/usr/local/sbin/ma_boot && chmod 755 /usr/local/sbin/ma_boot"
LIBRARIES = "/opt/ma_boot/lib/python3*/site-packages"
BELOW_ROOT = "mkdir -p /root/py/bin && cp /usr/bin/python3.11 /root/py/bin/python && chmod 700 /root"
NO_ENVIRONMENT = "rm -r /home/ma-user/anaconda3"
BY_PATH = "\nENV DEFAULT_CONDA_ENV_NAME= ANACONDA_DIR="


def as_root(command: str) -> str:
    """Layers that change files as root; the image's user stays the right one."""
    return f"USER root\nRUN {command}\nUSER 1000:100"


WRONG: list[tuple[str, str, list[str], str, str, str]] = [
    # name, layers on the good image, options of `check`; rule and severity of its one finding, part of the remedy
    ("root", "USER root", [], "user", "error", "end the Dockerfile with USER 1000"),
    ("other-user", as_root("echo me:x:1001:100::/home/ma-user:/bin/bash >>/etc/passwd") + "\nUSER me", [], "user", "error", "USER 1000"),
    ("no-account", as_root("sed -i /^ma-user:/d /etc/passwd"), [], "account", "error", "add the line ma-user:x:1000:100"),
    ("other-group", as_root("sed -i s/1000:100:/1000:1000:/ /etc/passwd"), [], "group", "warning", "usermod -g 100"),
    ("group-of-user", "USER 1000:1000", [], "group", "warning", "USER 1000:100"),
    ("other-home", as_root("sed -i 's#:/home/ma-user:#:/home/me:#' /etc/passwd"), [], "home", "error", "usermod -d /home/ma-user"),
    ("no-home", as_root("rm -r /home/ma-user") + "\nENV DEFAULT_CONDA_ENV_NAME=", [], "home", "error", "mkdir -p /home/ma-user"),
    ("closed-home", as_root("chown 0:0 /home/ma-user && chmod 700 /home/ma-user") + "\nENV DEFAULT_CONDA_ENV_NAME=", [], "home", "error", "chmod 750"),
    ("read-only-home", as_root("chown 0:0 /home/ma-user && chmod 755 /home/ma-user"), [], "home", "error", "chown 1000:100"),
    ("volume", "VOLUME /home/ma-user", [], "home", "error", "remove VOLUME /home/ma-user"),
    ("workdir", "WORKDIR /tmp", [], "workdir", "warning", "WORKDIR /home/ma-user"),
    ("no-toolkit", as_root("rm -r /opt/ma_boot /usr/local/bin/ma_boot"), [], "toolkit", "error", "ma_boot's Dockerfile"),
    ("broken-toolkit", as_root(f"rm -r {LIBRARIES}/click"), [], "toolkit", "error", "rebuild /opt/ma_boot"),
    ("no-yaml", as_root(f"rm -r {LIBRARIES}/yaml"), [], "toolkit", "error", "rebuild /opt/ma_boot"),
    ("no-crcmod", as_root(f"rm -r {LIBRARIES}/crcmod"), [], "toolkit", "error", "rebuild /opt/ma_boot"),
    ("no-command", as_root("rm /usr/local/bin/ma_boot"), [], "boot-command", "error", "keep /usr/local/bin/ma_boot"),
    ("no-x-bit", as_root("chmod 644 /usr/local/bin/ma_boot"), [], "boot-command", "error", "chmod 755 /usr/local/bin/ma_boot"),
    ("crlf", as_root(r"sed -i 's/$/\r/' /usr/local/bin/ma_boot"), [], "boot-command", "error", "core.autocrlf"),
    ("another-first", as_root(ANOTHER), [], "boot-command", "error", "remove /usr/local/sbin/ma_boot"),
    ("stop-signal", "STOPSIGNAL SIGKILL", [], "stop-signal", "error", "STOPSIGNAL SIGTERM"),
    ("closed-modelarts", as_root("mkdir -m 700 /home/ma-user/modelarts"), [], "directory", "error", "chown 1000:100"),
    ("closed-passwd", as_root("chmod 600 /etc/passwd"), [], "account", "error", "chmod 644 /etc/passwd"),
    ("below-root", as_root("mv /home/ma-user/anaconda3 /root/miniconda3") + "\nENV ANACONDA_DIR=/root/miniconda3", [], "environment", "error", "chmod o+x /root"),
    ("python-below-root", as_root(f"{NO_ENVIRONMENT} && {BELOW_ROOT} && ln -s /root/py/bin/python /usr/local/bin/python") + BY_PATH, [], "environment", "error", "chmod o+x /root"),
    ("environment-below-root", as_root(f"{BELOW_ROOT} && ln -sf /root/py/bin/python {ENVIRONMENT}/bin/python"), [], "environment", "error", "chmod o+x /root"),
    ("toolkit-as-python", as_root(f"{NO_ENVIRONMENT} && ln -s /opt/ma_boot/bin/python /usr/local/bin/python") + BY_PATH, [], "environment", "error", "remove /usr/local/bin/python"),
    ("closed-packages", as_root(f"mkdir -m 700 {ENVIRONMENT}/lib/python3.11/site-packages/torch"), [], "environment", "error", "chmod -R a+rX"),
    ("broken-libc", as_root("mkdir /bad && : >/bad/libc.so.6") + "\nENV LD_LIBRARY_PATH=/bad", [], "shell", "error", "remove LD_LIBRARY_PATH=/bad"),
    ("python-home", "ENV PYTHONHOME=/nowhere", [], "variable", "warning", "set PYTHONHOME in the boot command"),
    ("ma-variable", "ENV MA_JOB_DIR=/x", [], "variable", "error", "remove ENV MA_JOB_DIR"),
    ("https", "ENV ENABLE_HTTPS=1", [], "variable", "error", "remove ENV ENABLE_HTTPS"),
    ("no-bash", as_root("rm /bin/bash"), [], "shell", "error", "install the package bash"),
    ("no-sh", as_root("rm /bin/sh"), [], "shell", "error", "install a POSIX shell"),
    ("no-environment", "ENV DEFAULT_CONDA_ENV_NAME=absent", [], "environment", "error", "an environment that exists"),
    ("broken-environment", as_root(f"rm {ENVIRONMENT}/pyvenv.cfg && ln -sf /nowhere {ENVIRONMENT}/bin/python"), [], "environment", "error", "again in this image"),
    ("driver", as_root("mkdir -p /usr/local/nvidia/lib64 && touch /usr/local/nvidia/lib64/libcuda.so"), [], "driver", "error", "ModelArts mounts the host's driver"),
    ("driver-library", as_root("touch /usr/lib/libcuda.so.535.1"), [], "driver", "error", "ModelArts mounts the host's driver"),
    ("set-uid", as_root("cp /bin/cat /usr/bin/own && chmod u+s /usr/bin/own"), [], "set-uid", "warning", "chmod ug-s /usr/bin/own"),
    ("path", "ENV PATH=/opt/ma_boot/bin", [], "path", "error", "instead of replacing it"),
    ("library-path", f"ENV LD_LIBRARY_PATH={ENVIRONMENT}/lib", [], "path", "warning", "ma_boot sets it"),
    ("rank-table", "ENV RANK_TABLE_FILE=/user/config/jobstart_hccl.json", [], "rank-table", "error", "remove ENV RANK_TABLE_FILE"),
    ("secret", f"ENV OBS_SECRET_ACCESS_KEY={SECRET}", [], "secret", "error", "change the credential"),
    ("buffered", "ENV PYTHONUNBUFFERED=", [], "unbuffered", "warning", "ENV PYTHONUNBUFFERED=1"),
    ("time-zone", "ENV TZ=Nowhere/Land", [], "time-zone", "warning", "tzdata"),
    ("entry-point", 'ENTRYPOINT ["/bin/true"]', [], "entry-point", "warning", "ENTRYPOINT []"),
    ("architecture", "", ["--arch", "aarch64"], "architecture", "error", "--platform linux/arm64"),
    ("no-program", "", ["--command", "conda activate x && ma_boot train.py"], "command", "error", "conda activate"),
    ("denied", as_root("echo x >/opt/closed && chmod 600 /opt/closed"), ["--command", "cat /opt/closed"], "command", "error", "uid 1000"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "lines", "options", "rule", "severity", "remedy"), WRONG, ids=[row[0] for row in WRONG]
)
def test_a_wrong_image_is_reported_with_its_remedy(
    engine: Any,
    derived: Callable[..., str],
    ma_boot: Callable[..., Ran],
    name: str,
    lines: str,
    options: list[str],
    rule: str,
    severity: str,
    remedy: str,
) -> None:
    image = derived(f"wrong-{name}", lines)
    done = ma_boot("image", "check", image, "--json", *options)
    (finding,) = json.loads(done.output)["findings"]
    assert (finding["rule"], finding["severity"]) == (rule, severity)
    assert remedy in finding["remedy"]
    assert done.code == (65 if severity == "error" else 0)
    assert SECRET not in done.output + done.errors


def found_in(done: Ran) -> list[tuple[str, str]]:
    """Rule and evidence of each finding."""
    return [(finding["rule"], finding["evidence"]) for finding in json.loads(done.output)["findings"]]


def test_variables_that_belong_to_a_job_or_a_machine(
    derived: Callable[..., str], ma_boot: Callable[..., Ran]
) -> None:
    values = {
        "MABOOT_LOCAL": "1", "RANK_ID": "0", "WORLD_SIZE": "8", "VC_TASK_INDEX": "0", "BASH_ENV": "/etc/profile",
        "http_proxy": "http://10.0.0.1:3128", "HOME": "/srv", "SSL_CERT_FILE": "/nowhere.pem",
    }  # fmt: skip
    image = derived("wrong-variables", "ENV " + " ".join(f"{name}={value}" for name, value in values.items()))
    done = ma_boot("image", "check", image, "--json")
    evidence = [text for _, text in found_in(done)]
    assert [name for name in values if not any(text.startswith(f"ENV {name}") for text in evidence)] == []
    assert len(evidence) == len(values)
    assert done.code == 65


def test_directories_that_a_job_needs(derived: Callable[..., str], ma_boot: Callable[..., Ran]) -> None:
    image = derived("wrong-places", as_root("mkdir /user && : >/user/config && chmod 755 /tmp && : >/cache"))
    done = ma_boot("image", "check", image, "--json")
    assert [text.partition(" ")[0] for rule, text in found_in(done) if rule == "directory"] == [
        "/cache", "/user/config", "/tmp"
    ]  # fmt: skip
    assert len(found_in(done)) == 3


def test_unusual_but_valid_image_has_no_finding(
    derived: Callable[..., str], ma_boot: Callable[..., Ran]
) -> None:
    """An empty ANACONDA_DIR counts as unset, and `/bin` is `/usr/bin`; bash runs the boot command, as ModelArts does."""
    image = derived("odd-but-good", "ENV ANACONDA_DIR= PATH=/usr/local/bin:/usr/bin PY=python3")
    command = "source /etc/profile && $PY --version && [[ -d . ]] && ma_boot --version"
    done = ma_boot("image", "check", image, "--command", command, "--arch", "x86_64")
    assert (done.code, done.output.count("\n")) == (0, 2), done.output
    assert f"`trivy image {image}` and gitleaks" in done.output
    assert f"{image}: ready for ModelArts (x86_64, 0." in done.output


def test_a_library_that_replaces_one_of_the_system(
    derived: Callable[..., str], ma_boot: Callable[..., Ran]
) -> None:
    image = derived("wrong-libz", as_root("mkdir /bad && : >/bad/libz.so.1") + "\nENV LD_LIBRARY_PATH=/bad")
    done = ma_boot("image", "check", image, "--json")
    findings = json.loads(done.output)["findings"]
    assert done.code == 65
    assert {finding["rule"] for finding in findings} <= {"toolkit", "environment"}
    assert all("remove LD_LIBRARY_PATH=/bad" in finding["remedy"] for finding in findings)


def test_an_image_whose_programs_are_for_another_architecture(
    engine: Any, good: Built, ma_boot: Callable[..., Ran], tmp_path: Path
) -> None:
    environment = "".join(
        f"ENV {variable}\n" for variable in engine.images.get(good.tag).attrs["Config"]["Env"]
    )
    text = f"FROM scratch\nCOPY --from={good.tag} / /\n{environment}WORKDIR /home/ma-user\nUSER 1000:100\n"
    (tmp_path / "Dockerfile").write_text(text + f"LABEL {TEST_LABEL}={SESSION}\n")
    tag = f"{SESSION}/wrong-manifest"
    engine.images.build(path=str(tmp_path), tag=tag, platform="linux/arm64", rm=True, forcerm=True)
    done = ma_boot("image", "check", tag, "--json")
    assert ("architecture", "the image says that it is for aarch64, but its programs are for x86_64") in (
        found_in(done)
    )


KEYS = {"OBS_SECRET_ACCESS_KEY": SECRET, "SWR_PASSWORD": "planted-99aa"}
FILES = {
    "/home/ma-user/code/.obsutilconfig": f"ak=AAAA\nsk={SECRET}",
    "/home/ma-user/code/deep/er/weights.bin": f"\0\0{SECRET}\0",
    "/root/.netrc": f"machine host login me password {KEYS['SWR_PASSWORD']}",
    "/opt/work/train.yaml": f"token: {SECRET}",
}
REMOVED = "/root/.netrc"
FOREIGN = {"/etc/environment": "DB_PASS=hunter22", "/home/ma-user/code/model.py": "key = os.environ['SK']"}


@pytest.mark.invariant("No login appears in an argument, a log or an image")
def test_own_keys_are_found_in_files_of_any_layer_and_in_the_history(
    engine: Any, good: Built, ma_boot: Callable[..., Ran], tmp_path: Path
) -> None:
    for file, text in {**FILES, **FOREIGN}.items():
        (tmp_path / "files" / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / file[1:]).write_text(text + "\n")
    (tmp_path / "files" / "root").chmod(0o700)
    (tmp_path / "files" / "home" / "ma-user").chmod(0o777)  # a copy gives it the mode of the source
    lines = f"FROM {good.tag}\nCOPY files/ /\nARG INDEX\nUSER 0\nRUN rm {REMOVED}\nUSER 1000:100\n"
    (tmp_path / "Dockerfile").write_text(lines)
    tag = f"{SESSION}/wrong-files"
    index = {"INDEX": f"https://me:{SECRET}@host/simple"}
    engine.images.build(path=str(tmp_path), tag=tag, buildargs=index, rm=True, forcerm=True)
    done = ma_boot("image", "check", tag, "--json", environ=KEYS)
    evidence = dict(text.split(" (not shown) is in ") for _, text in found_in(done))
    assert {rule for rule, _ in found_in(done)} == {"secret"}
    own, password = (evidence[f"the value of your {name}"] for name in KEYS)
    assert "docker history" in own
    assert "and 1 more" in own, "three places are named"
    assert f"{REMOVED} (removed later, but still in its layer)" in password
    assert [key for key in (*KEYS.values(), "hunter22") if key in done.output + done.errors] == []
    assert ma_boot("image", "check", tag, environ={"SWR_PASSWORD": "another-value"}).code == 0


def test_findings_as_text(derived: Callable[..., str], ma_boot: Callable[..., Ran]) -> None:
    image = derived("wrong-twice", "ENV MA_X=1\nWORKDIR /tmp")
    done = ma_boot("image", "check", image)
    assert done.code == 65
    assert "error: variable: ENV MA_X is reserved for the platform\n    -> remove ENV MA_X" in done.output
    assert "warning: workdir:" in done.output
    assert f"{image} breaks 1 of ModelArts' rules" in done.errors


def test_a_boot_command_that_keeps_running_is_stopped(good: Built, ma_boot: Callable[..., Ran]) -> None:
    assert ma_boot("image", "check", good.tag, "--command", "sleep 600").code == 0


@pytest.mark.parametrize(
    ("image", "code", "message"),
    [
        (f"{SESSION}/absent", 66, f"no such image: {SESSION}/absent"),
        ("Not a name!", 64, "invalid image name"),
    ],
    ids=["absent", "no name"],
)
def test_no_such_image(ma_boot: Callable[..., Ran], engine: Any, image: str, code: int, message: str) -> None:
    done = ma_boot("image", "check", image)
    assert done.code == code
    assert message in done.errors


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_check_leaves_nothing(engine: Any, good: Built, signum: int, code: int) -> None:
    command = [sys.executable, "-m", "ma_boot", "image", "check", good.tag, "--command", "sleep 600"]
    probes = {"label": f"{LABEL}=probe", "ancestor": good.tag}

    def sleeps() -> bool:
        return any(
            "sleep 600" in str(container.attrs["Args"])
            for container in engine.containers.list(filters=probes)
        )

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        eventually(sleeps, "the boot command runs")
        process.send_signal(signum)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert engine.containers.list(all=True, filters=probes) == []


def test_no_engine(ma_boot: Callable[..., Ran]) -> None:
    done = ma_boot("image", "check", "any", environ={"DOCKER_HOST": f"unix:///run/{uuid.uuid4().hex}.sock"})
    assert done.code == 69
    assert "no container engine answers at unix:///run/" in done.errors
    assert "DOCKER_HOST" in done.errors


def test_an_engine_that_disappears(good: Built, ma_boot: Callable[..., Ran]) -> None:
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")[2]
    with breaking(address, lambda data: b"/containers/create" in data) as broken:
        done = ma_boot("image", "check", good.tag, environ={"DOCKER_HOST": f"tcp://{broken}"})
    assert done.code == 69
    assert f"lost the connection to the engine at tcp://{broken}" in done.errors
