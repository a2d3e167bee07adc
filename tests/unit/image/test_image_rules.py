"""ModelArts' rules for images, without an engine: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot import __version__
from ma_boot.desk.image.check import (
    CheckedImage,
    ImageRejected,
    apply_rules,
    findings_json,
    findings_text,
    reject_errors,
)
from ma_boot.desk.image.rules.boot import this_toolkit
from ma_boot.desk.image.rules.facts import (
    GB,
    Account,
    ImageFacts,
    Inside,
    Python,
    Started,
    from_metadata,
    parse_probe,
)
from ma_boot.desk.image.rules.secrets import keys_in_metadata, own_keys, parse_search
from ma_boot.platform.modelarts.findings import Finding

ENVIRONMENT = "/home/ma-user/anaconda3/envs/training"
VERSION = f"ma_boot {__version__} from /opt/ma_boot/lib/python3.11/site-packages/ma_boot (Python 3.11.2)"
BOOT = Python("/usr/local/bin/ma_boot", True, VERSION)
INSIDE = Inside(
    accounts=(Account("root", 0, 0, "/root"), Account("ma-user", 1000, 100, "/home/ma-user")),
    home="ok",
    programs=("sh", "bash"),
    machine="x86_64",
    boot=BOOT,
    toolkit=Python("/opt/ma_boot", True, VERSION),
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


def named(*accounts: tuple[str, int, int, str]) -> ImageFacts:
    return inside(accounts=tuple(Account(*account) for account in accounts))


def failing(answer: str) -> Python:
    return Python(BOOT.prefix, False, answer)


def older() -> Python:
    return replace(BOOT, answer=VERSION.replace(__version__, "0.0.1"))


def history(*commands: str) -> ImageFacts:
    return replace(GOOD, history=commands)


def broken_libc() -> ImageFacts:
    answer = (
        "the probe ended with 127: /bin/sh: error while loading shared libraries: /bad/libc.so.6: too short"
    )
    return replace(environ(LD_LIBRARY_PATH="/bad"), inside=Inside(), refusal=answer)


def broken_libz() -> ImageFacts:
    python = Python(ENVIRONMENT, False, "ImportError: /bad/libz.so.1: file too short")
    return replace(environ(LD_LIBRARY_PATH="/bad"), inside=replace(INSIDE, environments=(python,)))


def below_root() -> ImageFacts:
    root = "/root/miniconda3"
    facts = inside(environments=(), barred={root: "/root"})
    return replace(facts, environ={**GOOD.environ, "ANACONDA_DIR": root})


def by_path(**changes: Any) -> ImageFacts:
    """An image without an environment, whose training runs with the python on PATH."""
    variables = {**GOOD.environ, "ANACONDA_DIR": "", "DEFAULT_CONDA_ENV_NAME": ""}
    return replace(GOOD, environ=variables, inside=replace(INSIDE, **{"environments": (), **changes}))


OF_TOOLKIT = Python("/usr/bin/python", True, "3.11.2", real="/opt/ma_boot/python/bin/python3")
LINK = "/usr/local/bin/python"
CLOSED = "/home/ma-user/anaconda3/envs/training/lib/python3.11/site-packages/torch"
TORCH_CLOSED = Python(ENVIRONMENT, True, "3.11.2", closed_packages=(CLOSED, f"{CLOSED}-2.dist-info"))


BROKEN: list[tuple[str, ImageFacts, str, str, str]] = [
    # what is wrong, the facts, rule and severity of the finding, a part of its remedy
    ("no USER", replace(GOOD, user=""), "user", "error", "USER 1000"),
    ("USER root", replace(GOOD, user="root"), "user", "error", "USER 1000"),
    ("USER 1000 by a name with another uid", replace(GOOD, user="root:100"), "user", "error", "USER 1000"),
    ("USER with no account", replace(GOOD, user="nobody-here"), "user", "error", "USER 1000"),
    ("no uid 1000", named(("root", 0, 0, "/root")), "account", "error", "ma-user:x:1000:100"),
    ("other group", named(("me", 1000, 1000, "/home/ma-user")), "group", "warning", "usermod -g 100 me"),
    ("group of USER", replace(GOOD, user="1000:1000"), "group", "warning", "USER 1000:100"),
    ("group of USER by name", replace(inside(groups={"me": 7}), user="ma-user:me"), "group", "warning", "USER 1000:100"),
    ("other home", named(("me", 1000, 100, "/home/me")), "home", "error", "usermod -d /home/ma-user"),
    ("home missing", inside(home="missing"), "home", "error", "mkdir -p /home/ma-user"),
    ("home closed", inside(home="closed"), "home", "error", "chmod 750"),
    ("home read-only", inside(home="read-only"), "home", "error", "chown 1000:100"),
    ("VOLUME on the home", replace(GOOD, volumes=("/home/ma-user",)), "home", "error", "VOLUME"),
    ("VOLUME above the home", replace(GOOD, volumes=("/home",)), "home", "error", "VOLUME /home"),
    ("other WORKDIR", replace(GOOD, workdir="/"), "workdir", "warning", "WORKDIR /home/ma-user"),
    ("/tmp closed", inside(places={"/tmp": "read-only"}), "directory", "warning", "chmod 1777 /tmp"),
    ("/user/config a file", inside(places={"/user/config": "file"}), "directory", "error", "RUN rm /user/config"),
    ("modelarts closed", inside(places={"/home/ma-user/modelarts": "closed"}), "directory", "error", "chown 1000:100"),
    ("passwd closed", inside(accounts=(), passwd_closed=True), "account", "error", "chmod 644 /etc/passwd"),
    ("no ma_boot", inside(toolkit=None, boot=None), "toolkit", "error", "BASE_IMAGE"),
    ("broken ma_boot", inside(toolkit=Python("/opt/ma_boot", False, "?")), "toolkit", "error", "TOOLKIT_PYTHON"),
    ("toolkit without json", inside(imports=Python("/opt/ma_boot", False, "no json")), "toolkit", "error", "rebuild /opt/ma_boot"),
    ("newer glibc", inside(libc=(2, 17), libc_need=((2, 34), "/opt/ma_boot/x.so")), "toolkit", "error", "TOOLKIT_IMAGE"),
    ("newer glibc, no start", inside(libc=(2, 9), libc_need=((2, 17), "/x"), toolkit=failing("")), "toolkit", "error", "TOOLKIT_IMAGE"),
    ("no boot command", inside(boot=None), "boot-command", "error", "/usr/local/bin/ma_boot"),
    ("no x bit", inside(boot=failing("Permission denied")), "boot-command", "error", "chmod 755 /usr/local/bin/ma_boot"),
    ("CRLF", inside(boot=failing("not found"), boot_has_crlf=True), "boot-command", "error", "core.autocrlf"),
    ("another program", inside(boot=Python("/x/ma_boot", True, "ma_boot 7")), "boot-command", "error", "remove /x/ma_boot"),
    ("another copy", inside(boot=Python("/x/ma_boot", True, VERSION.replace("/opt", "/x"))), "boot-command", "error", "PATH"),
    ("older version", inside(boot=older(), toolkit=older()), "toolkit", "warning", "build the image again"),
    ("STOPSIGNAL KILL", replace(GOOD, stop_signal="SIGKILL"), "stop-signal", "error", "STOPSIGNAL SIGTERM"),
    ("STOPSIGNAL 10", replace(GOOD, stop_signal="10"), "stop-signal", "error", "STOPSIGNAL SIGTERM"),
    ("STOPSIGNAL QUIT", replace(GOOD, stop_signal="SIGQUIT"), "stop-signal", "warning", "STOPSIGNAL SIGTERM"),
    ("x86 in an arm64 image", replace(GOOD, architecture="aarch64"), "architecture", "error", "--platform linux/arm64"),
    ("MA_ variable", environ(MA_ANY="1"), "variable", "error", "ENV MA_ANY"),
    ("ENABLE_HTTPS", environ(ENABLE_HTTPS="1"), "variable", "error", "ENABLE_HTTPS"),
    ("no bash", inside(programs=("sh",)), "shell", "error", "bash"),
    ("no sh", replace(GOOD, inside=Inside(), refusal="no such file"), "shell", "error", "/bin/sh"),
    ("sh with a broken libc", broken_libc(), "shell", "error", "remove LD_LIBRARY_PATH=/bad from ENV"),
    ("foreign", replace(GOOD, inside=Inside(), refusal="exec format error"), "inside", "warning", "qemu"),
    ("no such environment", environ(DEFAULT_CONDA_ENV_NAME="x"), "environment", "error", "ANACONDA_DIR"),
    ("broken python", inside(environments=(Python(ENVIRONMENT, False, "?"),)), "environment", "error", "again"),
    ("an empty ANACONDA_DIR", environ(ANACONDA_DIR="", DEFAULT_CONDA_ENV_NAME="x"), "environment", "error", "ANACONDA_DIR"),
    ("below /root", below_root(), "environment", "error", "chmod o+x /root"),
    ("python below /root", by_path(path_python=None, barred={LINK: "/root"}), "environment", "error", "chmod o+x /root"),
    ("another python first", by_path(barred={LINK: "/root"}), "environment", "error", "chmod o+x /root"),
    ("not the training's", inside(barred={LINK: "/root"}), "environment", "warning", "chmod o+x /root"),
    ("home below /root", inside(environments=(Python(ENVIRONMENT, False, "?"),), barred={f"{ENVIRONMENT}/bin/python": "/root"}), "environment", "error", "chmod o+x /root"),
    ("toolkit's python", by_path(path_python=OF_TOOLKIT), "environment", "error", "remove /usr/bin/python"),
    ("toolkit's python on PATH", inside(path_python=OF_TOOLKIT), "environment", "warning", "remove /usr/bin/python"),
    ("closed packages", inside(environments=(TORCH_CLOSED,)), "environment", "error", f"chmod -R a+rX {CLOSED[:-6]}"),
    ("no python", by_path(path_python=None), "environment", "error", "image/environment"),
    ("broken libz", broken_libz(), "environment", "error", "remove LD_LIBRARY_PATH=/bad from ENV"),
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
    ("BASH_ENV", environ(BASH_ENV="/x"), "variable", "warning", "boot command"),
    ("MABOOT_LOCAL", environ(MABOOT_LOCAL="1"), "variable", "error", "remove ENV MABOOT_LOCAL"),
    ("MABOOT_TEE", environ(MABOOT_TEE="none"), "variable", "warning", "--tee in the boot command"),
    ("RANK_ID", environ(RANK_ID="0"), "variable", "warning", "remove ENV RANK_ID"),
    ("WORLD_SIZE", environ(WORLD_SIZE="8"), "variable", "warning", "remove ENV WORLD_SIZE"),
    ("VC_", environ(VC_WORKER_HOSTS="a,b"), "variable", "warning", "remove ENV VC_WORKER_HOSTS"),
    ("proxy", environ(http_proxy="http://10.0.0.1:3128"), "proxy", "warning", "--build-arg"),
    ("HOME", environ(HOME="/nowhere"), "home", "warning", "remove ENV HOME"),
    ("certificates", inside(unreadable=(("SSL_CERT_FILE", "/x"),)), "variable", "error", "ca-certificates"),
    ("buffered", environ(PYTHONUNBUFFERED=""), "unbuffered", "warning", "PYTHONUNBUFFERED=1"),
    ("secret", environ(OBS_SECRET_ACCESS_KEY="planted"), "secret", "error", "change the credential"),
    ("secret in a label", replace(GOOD, labels={"db.password": "planted"}), "secret", "error", "change the credential"),
    ("secret in CMD", replace(GOOD, command=("ma_boot", "--sk", "planted")), "secret", "error", "change the credential"),
    ("secret in a line of CMD", replace(GOOD, command=("sh", "-c", "TOKEN=planted ma_boot")), "secret", "error", "change the credential"),
    ("own key", replace(GOOD, exposed_keys=(("OBS_SK", "/x/.npmrc"),)), "secret", "error", ".dockerignore"),
    ("files not searched", replace(GOOD, searched=False), "secret", "warning", "trivy image"),
    ("time zone", inside(zone=False), "time-zone", "warning", "tzdata"),
    ("ENTRYPOINT", replace(GOOD, entrypoint=("/init",)), "entry-point", "warning", "ENTRYPOINT []"),
]  # fmt: skip


@pytest.mark.invariant("A good image has no finding, and every rule finds its fault")
def test_a_good_image_has_no_finding() -> None:
    assert apply_rules(GOOD, "x86_64") == []


@pytest.mark.invariant("A good image has no finding, and every rule finds its fault")
@pytest.mark.parametrize(
    ("facts", "rule", "severity", "remedy"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_each_rule_finds_its_fault_with_its_remedy(
    facts: ImageFacts, rule: str, severity: str, remedy: str
) -> None:
    (finding,) = apply_rules(facts, None)
    assert (finding.check, finding.severity) == (rule, severity)
    assert remedy in finding.remedy
    checked = CheckedImage("image", "x86_64", GB, (finding,))
    assert "planted" not in findings_text(checked) + findings_json(checked)


ALLOWED = {
    "variables for users": environ(MA_HANG_DETECT_TIME="30", MA_DETECT_TRAIN_INJECT_CODE="1"),
    "another name": named(("root", 0, 0, "/root"), ("somebody", 1000, 100, "/home/ma-user/")),
    "user by name": replace(GOOD, user="ma-user"),
    "group by name": replace(inside(groups={"users": 100}), user="ma-user:users"),
    "stubs": inside(
        driver_files=("/usr/local/cuda/lib64/stubs/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1")
    ),
    "15 GB": replace(GOOD, size=15 * GB),
    "merged usr": replace(
        environ(PATH="/usr/local/bin:/usr/bin"), inside=replace(INSIDE, links={"/bin": "/usr/bin"})
    ),
    "SIGTERM": replace(GOOD, stop_signal="SIGTERM"),
    "variables of no effect": environ(HOME="/home/ma-user/", MABOOT_LOCAL="0", RANK_ID=""),
    "empty ANACONDA_DIR": environ(ANACONDA_DIR=""),
    "toolkit elsewhere": inside(toolkit=None),
    "the same glibc": inside(libc=(2, 17), libc_need=((2, 17), "/opt/ma_boot/x.so")),
    "unknown glibc": inside(libc=None, libc_need=((2, 34), "/opt/ma_boot/x.so")),
    "mounted over": inside(places={"/user/config": "read-only", "/tmp": "ok"}),
    "figures, booleans, paths": environ(
        TOKENIZERS_PARALLELISM="false", MAX_TOKENS="4096", PASSWORD_FILE="/run/secrets/pw", PWD="/root"
    ),
    "labels and commands": replace(
        GOOD, labels={"org.opencontainers.image.source": "https://host/x"}, command=("ma_boot", "--help")
    ),
}


@pytest.mark.parametrize("facts", ALLOWED.values(), ids=ALLOWED)
def test_allowed_settings_are_no_findings(facts: ImageFacts) -> None:
    assert apply_rules(facts, None) == []


def test_architecture_is_compared_only_with_a_requested_one() -> None:
    (finding,) = apply_rules(GOOD, "aarch64")
    assert finding.check == "architecture"
    assert "--platform linux/arm64" in finding.remedy


@pytest.mark.parametrize(
    ("started", "severity", "evidence"),
    [
        (Started("nope x", 127, "bash: line 1: nope: command not found"), "error", "nope: command not found"),
        (
            Started("nope; true", 0, "bash: line 1: nope: command not found"),
            "error",
            "nope: command not found",
        ),
        (Started("ma_boot 'x", 2, "bash: -c: line 2: syntax error: unexpected EOF"), "error", "syntax error"),
        (Started("ma_boot x", 1, "cat: /x: Permission denied\n"), "error", "Permission denied"),
        (Started("ma_boot x", 127, "x: No such file or directory"), "warning", "x: No such file"),
    ],
)
def test_boot_command_that_does_not_start_is_reported(started: Started, severity: str, evidence: str) -> None:
    (finding,) = apply_rules(replace(GOOD, started=started), None)
    assert (finding.check, finding.severity) == ("command", severity)
    assert evidence in finding.evidence


def test_errors_come_first_and_refuse_the_image() -> None:
    findings = apply_rules(replace(GOOD, user="", workdir="/", size=31 * GB), None)
    assert [finding.severity for finding in findings] == ["error", "error", "warning"]
    checked = CheckedImage("image", "x86_64", GB, tuple(findings))
    with pytest.raises(ImageRejected, match="breaks 2 of"):
        reject_errors(checked)
    assert "image: not ready for ModelArts (x86_64, 1.00 GB)" in findings_text(checked)
    reject_errors(replace(checked, findings=(Finding("workdir", "warning", "", ""),)))


@pytest.mark.invariant("The boot command of an image is this toolkit's, and stop signals reach it")
def test_the_answer_of_this_toolkit_is_known() -> None:
    assert this_toolkit(VERSION + "\n") == VERSION[len("ma_boot ") :].partition(" (")[0]
    assert this_toolkit("ma_boot 7") is None
    assert this_toolkit("") is None


def test_output_of_the_probe_is_parsed() -> None:
    facts = parse_probe(
        "passwd\troot:x:0:0:root:/root:/bin/sh\npasswd\tbad line\nhome\tok\nprogram\tbash\n"
        "toolkit\t/opt/ma_boot\t0\tma_boot 0.1.0\nenvironment\t/e\t1\tsome\terror\nset_id\t/a b\nzone\tmissing\n"
        "place\t/tmp\tclosed\nreal\t/e\t/r\nclosed_package\t/e\t/a\nclosed_package\t/f\t/b\n"
        "group\tusers:x:100:\ngroup\tbad:line\nend\tok\n"
    )
    assert facts is not None
    assert facts.accounts == (Account("root", 0, 0, "/root"),)
    assert facts.toolkit == Python("/opt/ma_boot", True, "ma_boot 0.1.0")
    assert facts.environments == (Python("/e", False, "some\terror", "/r", ("/a",)),)
    assert facts.groups == {"users": 100}
    assert (facts.home, facts.programs, facts.set_id_files) == ("ok", ("bash",), ("/a b",))
    assert not facts.zone
    assert facts.places == {"/tmp": "closed"}


@pytest.mark.parametrize(
    ("lines", "need"),
    [
        (
            "libc_need\tGLIBC_2.9\t/a\nlibc_need\tGLIBC_2.17\t/b\nlibc_need\tGLIBC_2.2.5\t/c\n",
            ((2, 17), "/b"),
        ),
        ("libc_need\tGLIBC_2.34\t/a\nlibc_need\tGLIBC_ABI_DT_RELR\t/b\n", ((2, 36), "/b")),
        ("libc_need\tGLIBC_PRIVATE\t/a\n", None),
        ("", None),
    ],
)
def test_the_newest_glibc_that_the_toolkit_asks_for(lines: str, need: Any) -> None:
    facts = parse_probe(f"libc\tglibc 2.31\n{lines}end\tok\n")
    assert facts is not None
    assert (facts.libc, facts.libc_need) == ((2, 31), need)
    without = parse_probe(f"libc\t\n{lines}end\tok\n")
    assert without is not None
    assert without.libc is None


def test_probe_without_its_last_line_yields_no_facts() -> None:
    assert parse_probe("machine\tx86_64\nhome\tok\n") is None


@given(st.text(st.sampled_from("passwdhome\t\n:01²x"), max_size=80))
def test_parser_of_the_probe_accepts_any_text(text: str) -> None:
    parse_probe(text)


@given(st.fixed_dictionaries({"Config": st.none() | st.just({}), "Size": st.integers(0)}))
def test_an_image_without_a_configuration_is_described(attributes: Any) -> None:
    facts = from_metadata("image", attributes)
    assert facts.size == attributes["Size"]
    assert (facts.user, facts.workdir) == ("", "/")


KEYS = {"OBS_SECRET_ACCESS_KEY": "planted-key-1", "SWR_PASSWORD": "planted-key-2"}


@pytest.mark.parametrize(
    ("facts", "place"),
    [
        (environ(HARMLESS="x-planted-key-1"), "ENV HARMLESS"),
        (replace(GOOD, labels={"org.x": "planted-key-1"}), "LABEL org.x"),
        (replace(GOOD, command=("sh", "-c", "use planted-key-1")), "CMD"),
        (history("RUN |1 INDEX=https://me:planted-key-1@host/ /bin/sh -c make"), "docker history"),
    ],
)
def test_own_key_in_the_metadata_is_found_with_its_place(facts: ImageFacts, place: str) -> None:
    ((name, where),) = keys_in_metadata(facts, KEYS)
    assert name == "OBS_SECRET_ACCESS_KEY"
    assert place in where


def test_only_long_secrets_of_one_line_are_searched_for() -> None:
    others = {"HOME": "/home/someone", "DB_PASSWORD": "short", "TLS_PRIVATE_KEY": "several\nlines of it"}
    assert own_keys({**KEYS, **others}) == KEYS


@pytest.mark.parametrize(
    ("output", "found", "is_complete"),
    [
        ("end\tok\n", (), True),
        ("found\t1\t/root/.netrc\nend\tok\n", (("SWR_PASSWORD", "/root/.netrc"),), True),
        ("found\t0\t/a\tb\n", (("OBS_SECRET_ACCESS_KEY", "/a\tb"),), False),
        ("sh: find: not found\n", (), False),
    ],
)
def test_search_without_its_last_line_is_incomplete(
    output: str, found: tuple[tuple[str, str], ...], is_complete: bool
) -> None:
    assert parse_search(output, list(KEYS)) == (found, is_complete)
