"""ModelArts' rules for images, without an engine: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ma_boot.errors import UsageError
from ma_boot.image.check import (
    ImageRejected,
    findings_json,
    findings_text,
    judged,
    programs_of,
    reject_errors,
)
from ma_boot.image.facts import GB, Account, ImageFacts, Inside, Python, Started, from_metadata, parsed_probe
from ma_boot.modelarts import Finding

ENVIRONMENT = "/home/ma-user/anaconda3/envs/training"
INSIDE = Inside(
    accounts=(Account("root", 0, 0, "/root"), Account("ma-user", 1000, 100, "/home/ma-user")),
    gid=100,
    home="ok",
    programs=("sh", "bash"),
    toolkit=Python("/opt/ma_boot", True, "ma_boot 0.1.0"),
    environments=(Python(ENVIRONMENT, True, "3.11.2"),),
    path_python=Python("/usr/bin/python3", True, "3.11.2"),
    set_id_files=("/usr/bin/passwd",),
)
GOOD = ImageFacts(
    name="good",
    user="1000:100",
    environ={
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "ANACONDA_DIR": "/home/ma-user/anaconda3",
        "DEFAULT_CONDA_ENV_NAME": "training",
    },
    entrypoint=(),
    workdir="/home/ma-user",
    volumes=(),
    architecture="x86_64",
    size=GB,
    inside=INSIDE,
)


def inside(**changes: Any) -> ImageFacts:
    return replace(GOOD, inside=replace(INSIDE, **changes))


def environ(**changes: str) -> ImageFacts:
    return replace(GOOD, environ={**GOOD.environ, **changes})


def named(*accounts: Tuple[str, int, int, str]) -> ImageFacts:
    return inside(accounts=tuple(Account(*account) for account in accounts))


BROKEN: List[Tuple[str, ImageFacts, str, str, str]] = [
    # what is wrong, the facts, rule and severity of the finding, a part of its remedy
    ("no USER", replace(GOOD, user=""), "user", "error", "USER 1000"),
    ("USER root", replace(GOOD, user="root"), "user", "error", "USER 1000"),
    ("USER 1000 by a name with another uid", replace(GOOD, user="root:100"), "user", "error", "USER 1000"),
    ("USER with no account", replace(GOOD, user="nobody-here"), "user", "error", "USER 1000"),
    ("no uid 1000", named(("root", 0, 0, "/root")), "account", "error", "ma-user:x:1000:100"),
    ("other group", named(("me", 1000, 1000, "/home/ma-user")), "group", "warning", "usermod -g 100 me"),
    ("other home", named(("me", 1000, 100, "/home/me")), "home", "error", "usermod -d /home/ma-user"),
    ("home missing", inside(home="missing"), "home", "error", "mkdir -p /home/ma-user"),
    ("home closed", inside(home="closed"), "home", "error", "chmod 750"),
    ("home read-only", inside(home="read-only"), "home", "error", "chown 1000:100"),
    ("VOLUME on the home", replace(GOOD, volumes=("/home/ma-user",)), "home", "error", "VOLUME"),
    ("VOLUME above the home", replace(GOOD, volumes=("/home",)), "home", "error", "VOLUME /home"),
    ("other WORKDIR", replace(GOOD, workdir="/"), "workdir", "warning", "WORKDIR /home/ma-user"),
    ("no ma_boot", inside(toolkit=None), "toolkit", "error", "BASE_IMAGE"),
    ("broken ma_boot", inside(toolkit=Python("/opt/ma_boot", False, "?")), "toolkit", "error", "TOOLKIT_PYTHON"),
    ("MA_ variable", environ(MA_ANY="1"), "variable", "error", "ENV MA_ANY"),
    ("ENABLE_HTTPS", environ(ENABLE_HTTPS="1"), "variable", "error", "ENABLE_HTTPS"),
    ("no bash", inside(programs=("sh",)), "shell", "error", "bash"),
    ("no sh", replace(GOOD, inside=None, refusal="no such file"), "shell", "error", "/bin/sh"),
    ("foreign", replace(GOOD, inside=None, refusal="exec format error"), "inside", "warning", "qemu"),
    ("no such environment", environ(DEFAULT_CONDA_ENV_NAME="x"), "environment", "error", "ANACONDA_DIR"),
    ("broken python", inside(environments=(Python(ENVIRONMENT, False, "?"),)), "environment", "error", "again"),
    ("30 GB", replace(GOOD, size=30 * GB + 1), "size", "error", "docker history"),
    ("15 GB", replace(GOOD, size=15 * GB + 1), "size", "warning", "smaller base"),
    ("driver", inside(driver_files=("/usr/lib/libcuda.so.535",)), "driver", "error", "mounts the host's"),
    ("set-uid", inside(set_id_files=("/usr/bin/sudo",)), "set-uid", "warning", "chmod ug-s /usr/bin/sudo"),
    ("PATH replaced", environ(PATH="/opt/bin"), "path", "error", "$PATH"),
    ("PATH relative", environ(PATH="/usr/bin:/bin:."), "path", "warning", "absolute"),
    ("empty entry", environ(LD_LIBRARY_PATH=":/usr/lib"), "path", "warning", "colon"),
    ("conda's lib", environ(LD_LIBRARY_PATH=f"{ENVIRONMENT}/lib"), "path", "warning", "remove it"),
    ("rank table", environ(RANK_TABLE_FILE="/x"), "rank-table", "error", "RANK_TABLE_FILE"),
    ("PYTHONPATH", environ(PYTHONPATH="/x"), "variable", "warning", "boot command"),
    ("buffered", environ(PYTHONUNBUFFERED=""), "unbuffered", "warning", "PYTHONUNBUFFERED=1"),
    ("secret", environ(OBS_SECRET_ACCESS_KEY="planted"), "secret", "error", "change the credential"),
    ("time zone", inside(zone=False), "time-zone", "warning", "tzdata"),
    ("ENTRYPOINT", replace(GOOD, entrypoint=("/init",)), "entry-point", "warning", "ENTRYPOINT []"),
]  # fmt: skip


def test_a_good_image_has_no_finding() -> None:
    assert judged(GOOD, "x86_64") == []


@pytest.mark.parametrize(
    ("facts", "rule", "severity", "remedy"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_each_rule_finds_its_fault_with_its_remedy(
    facts: ImageFacts, rule: str, severity: str, remedy: str
) -> None:
    (found,) = judged(facts, None)
    assert (found.check, found.severity) == (rule, severity)
    assert remedy in found.remedy
    assert "planted" not in findings_text("image", [found]) + findings_json("image", [found])


@pytest.mark.parametrize(
    "facts",
    [
        environ(MA_HANG_DETECT_TIME="30", MA_DETECT_TRAIN_INJECT_CODE="1"),
        named(("root", 0, 0, "/root"), ("somebody", 1000, 100, "/home/ma-user/")),
        replace(GOOD, user="ma-user"),
        inside(
            driver_files=("/usr/local/cuda/lib64/stubs/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1")
        ),
        replace(GOOD, size=15 * GB),
    ],
    ids=["variables for users", "another name", "user by name", "stubs", "15 GB"],
)
def test_what_is_allowed_is_not_found(facts: ImageFacts) -> None:
    assert judged(facts, None) == []


def test_the_architecture_is_only_judged_when_it_is_asked_for() -> None:
    (found,) = judged(GOOD, "aarch64")
    assert found.check == "architecture"
    assert "--platform linux/arm64" in found.remedy


@pytest.mark.parametrize(
    ("started", "severity", "evidence"),
    [
        (Started("nope x", False, 0, "nope: not found"), "error", "nope: not found"),
        (Started("ma_boot x", True, 1, "cat: /x: Permission denied\n"), "error", "Permission denied"),
        (Started("ma_boot x", True, 127, "x: not found"), "warning", "x: not found"),
    ],
)
def test_a_boot_command_that_does_not_start(started: Started, severity: str, evidence: str) -> None:
    (found,) = judged(replace(GOOD, started=started), None)
    assert (found.check, found.severity) == ("command", severity)
    assert evidence in found.evidence


def test_errors_come_first_and_refuse_the_image() -> None:
    findings = judged(replace(GOOD, user="", workdir="/", size=31 * GB), None)
    assert [finding.severity for finding in findings] == ["error", "error", "warning"]
    with pytest.raises(ImageRejected, match="breaks 2 of"):
        reject_errors("image", findings)
    reject_errors("image", [Finding("workdir", "warning", "", "")])


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("ma_boot train.py --epochs 90", ["ma_boot"]),
        ("cd code && A=1 B=2 ma_boot 'a && b'; echo done", ["cd", "ma_boot", "echo"]),
        ("a | b || c & d", ["a", "b", "c", "d"]),
    ],
)
def test_the_programs_of_a_boot_command(command: str, programs: List[str]) -> None:
    assert programs_of(command) == programs


@pytest.mark.parametrize("command", ["a\nb", "a 'b"])
def test_a_boot_command_that_no_job_form_takes(command: str) -> None:
    with pytest.raises(UsageError, match="--command"):
        programs_of(command)


def test_what_the_probe_prints_is_read() -> None:
    found = parsed_probe(
        "gid\t100\npasswd\troot:x:0:0:root:/root:/bin/sh\npasswd\tbad line\nhome\tok\nprogram\tbash\n"
        "toolkit\t/opt/ma_boot\t0\tma_boot 0.1.0\nenvironment\t/e\t1\tsome\terror\nset_id\t/a b\nzone\tmissing\n"
    )
    assert found.accounts == (Account("root", 0, 0, "/root"),)
    assert found.toolkit == Python("/opt/ma_boot", True, "ma_boot 0.1.0")
    assert found.environments == (Python("/e", False, "some\terror"),)
    assert (found.gid, found.home, found.programs, found.set_id_files) == (100, "ok", ("bash",), ("/a b",))
    assert not found.zone


@given(st.text(st.sampled_from("gidpasswdhome\t\n:01²x"), max_size=80))
def test_no_answer_of_a_probe_breaks_the_reader(text: str) -> None:
    parsed_probe(text)


@given(st.fixed_dictionaries({"Config": st.none() | st.just({}), "Size": st.integers(0)}))
def test_an_image_without_a_configuration_is_described(attributes: Any) -> None:
    facts = from_metadata("image", attributes)
    assert facts.size == attributes["Size"]
    assert (facts.user, facts.workdir) == ("", "/")
