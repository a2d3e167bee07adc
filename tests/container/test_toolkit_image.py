"""Bases whose Python is too old for the toolkit, or that have none: TOOLKIT_IMAGE brings one along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

from tests.container.conftest import SESSION, Build, Built, Ran
from tests.container.images import grown, inside

PYTHON = "/home/ma-user/anaconda3/envs/theirs/bin/python"
TOOLKIT_BYTES = 150_000_000


def files(engine: Any, image: str) -> set[str]:
    """Every file outside of the toolkit, with a digest of its contents."""
    command = "find / -xdev -type f -not -path '/opt/ma_boot/*' -not -path '/proc/*' -exec sha256sum {} +"
    return set(inside(engine, image, "sh", "-c", command, user="0").splitlines())


def test_the_toolkit_brings_its_python_and_leaves_the_base_as_it_is(
    on_old: Built, old: str, engine: Any
) -> None:
    assert f"{on_old.tag}: ready for ModelArts" in on_old.output
    assert "(Python 3.9" in inside(engine, on_old.tag, "ma_boot", "--version")
    assert inside(engine, on_old.tag, "sh", "-c", "command -v python3 python || echo none") == "none"
    assert grown(engine, on_old.tag, old) < TOOLKIT_BYTES
    added = {line.partition("  ")[2] for line in files(engine, on_old.tag) ^ files(engine, old)}
    changed = {name for name in added if not name.startswith(("/etc/host", "/etc/resolv", "/.dockerenv"))}
    assert changed == {"/etc/passwd", "/usr/local/bin/ma_boot"}


def test_its_libraries_are_its_own(on_old: Built, engine: Any) -> None:
    """Also where a LD_LIBRARY_PATH of the training has others of the same names."""
    program = "import ctypes, lzma, ssl, zlib; print(open('/proc/self/maps').read())"
    maps = inside(engine, on_old.tag, "/opt/ma_boot/bin/python", "-I", "-c", program)
    taken = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    names = {path.rpartition("/")[2] for path in taken if not path.startswith("/opt/ma_boot/")}
    assert not [
        name
        for name in names
        if not name.startswith(("libc-", "libm-", "libdl-", "libpthread-", "libutil-", "ld-"))
    ]
    command = "mkdir /tmp/bad && : >/tmp/bad/libssl.so.1.1 && : >/tmp/bad/libz.so.1 && LD_LIBRARY_PATH=/tmp/bad ma_boot --version"
    assert inside(engine, on_old.tag, "sh", "-c", command).startswith("ma_boot")


def test_a_job_runs_with_the_python_of_the_base(on_old: Built, engine: Any) -> None:
    program = "import sys; print(sys.executable, sys.version_info[:2])"
    output = inside(
        engine, on_old.tag, "ma_boot", "--rendezvous", "none", "python", "-c", program,
        environment={"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "1", "VC_TASK_INDEX": "0", "MA_VJ_NAME": "job"},
    )  # fmt: skip
    assert f"{PYTHON} (3, 9)" in output


def test_a_toolkit_without_a_module_that_a_mapping_needs_is_not_ready(
    on_old: Built, engine: Any, ma_boot: Callable[..., Ran], tmp_path: Path
) -> None:
    """Nor one without `json`, of which `ma_boot --version` needs nothing; and with both, a job gets its inputs."""
    library = "/opt/ma_boot/python/lib/python3.9"
    for name, file in (("sqlite3", f"{library}/lib-dynload/_sqlite3*"), ("json", f"{library}/json/*")):
        (tmp_path / "Dockerfile").write_text(f"FROM {on_old.tag}\nUSER 0\nRUN rm -r {file}\nUSER 1000:100\n")
        image = f"{SESSION}/without-{name}"
        engine.images.build(path=str(tmp_path), tag=image, rm=True, forcerm=True)
        done = ma_boot("image", "check", image, "--json")
        (finding,) = json.loads(done.output)["findings"]
        assert (done.code, finding["rule"]) == (65, "toolkit")
        assert name in finding["evidence"]
    mapping = '{"input": {"data": "obs://bucket/data"}}'
    command = (
        "mkdir -p obs/bucket/data && echo content >obs/bucket/data/file && "
        f"echo '{mapping}' >mapping.json && exec ma_boot --rendezvous none --obs-root obs --path-mapping mapping.json cat data/file"
    )
    environment = {"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "1", "VC_TASK_INDEX": "0", "MA_VJ_NAME": "job"}
    assert "content" in inside(engine, on_old.tag, "sh", "-c", command, environment=environment)


TRAINING = """
import sys
from ma_boot.training import checkpoint
from path_mapping import file
print("trains with", sys.version_info[:2], file.exists(sys.base_prefix))
"""


def test_the_training_keeps_the_python_of_a_base_that_is_too_old_for_the_toolkit(
    old_python: str, plain: str, build: Build, engine: Any, context: Path
) -> None:
    """As the images of older CANN and MindSpore releases; what the training imports of us runs there, too."""
    version = ("python3", "-c", "import sys; print(sys.version_info[:2], sys.prefix)")
    base, _, prefix = inside(engine, old_python, *version).rpartition(" ")
    assert base in ("(3, 7)", "(3, 8)")
    built = build("old-python", old_python, context, [f"TOOLKIT_IMAGE={plain}"])
    assert f"{built.tag}: ready for ModelArts" in built.output
    assert "(Python 3.11" in inside(engine, built.tag, "ma_boot", "--version")
    assert inside(engine, built.tag, *version) == f"{base} {prefix}"
    digest = ("sh", "-c", f"find {prefix} -type f -exec sha256sum {{}} + | sort | sha256sum")
    assert inside(engine, built.tag, *digest, user="0") == inside(engine, old_python, *digest, user="0")
    output = inside(
        engine, built.tag, "ma_boot", "--rendezvous", "none", "python", "-c", TRAINING,
        environment={"MA_NUM_HOSTS": "1", "MA_NUM_GPUS": "1", "VC_TASK_INDEX": "0", "MA_VJ_NAME": "job"},
    )  # fmt: skip
    assert f"trains with {base} True" in output


def test_a_toolkit_that_needs_a_newer_c_library_is_refused_in_the_build(
    plain: str, old: str, ma_boot: Callable[..., Ran], context: Path
) -> None:
    given = (f"BASE_IMAGE={old}", f"TOOLKIT_IMAGE={plain}")
    options = [word for argument in given for word in ("--build-arg", argument)]
    done = ma_boot("image", "build", str(context), "--tag", f"{SESSION}/newer", *options)
    assert done.code == 78, done.output
    assert "the toolkit does not start on BASE_IMAGE, which has glibc 2.31" in done.errors
    assert "make image TOOLKIT_IMAGE=NAME" in done.errors


def test_a_library_that_needs_a_newer_c_library_is_found_by_the_check(
    on_old: Built, engine: Any, plain: str, ma_boot: Callable[..., Ran], tmp_path: Path
) -> None:
    """The toolkit starts, and would fail in a job when it loads the library."""
    (tmp_path / "Dockerfile").write_text(
        f"FROM {plain} AS newer\nFROM {on_old.tag}\n"
        "COPY --from=newer /usr/lib/x86_64-linux-gnu/libm.so.6 /opt/ma_boot/lib/python3.9/site-packages/newer.so\n"
    )
    image = f"{SESSION}/newer-library"
    engine.images.build(path=str(tmp_path), tag=image, rm=True, forcerm=True)
    assert inside(engine, image, "ma_boot", "--version").startswith("ma_boot")
    done = ma_boot("image", "check", image, "--json")
    (finding,) = json.loads(done.output)["findings"]
    assert (done.code, finding["rule"]) == (65, "toolkit")
    assert "site-packages/newer.so needs glibc 2.3" in finding["evidence"]
    assert finding["evidence"].endswith("the image has 2.31")
    assert "TOOLKIT_IMAGE" in finding["remedy"]


def test_a_base_without_any_python_needs_one_for_the_training(
    engine: Any, old: str, old_toolkit: str, ma_boot: Callable[..., Ran], context: Path, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {old}\nENV DEFAULT_CONDA_ENV_NAME=absent\n")
    engine.images.build(path=str(tmp_path), tag=f"{SESSION}/no-training", rm=True, forcerm=True)
    given = (f"BASE_IMAGE={SESSION}/no-training", f"TOOLKIT_IMAGE={old_toolkit}")
    options = [word for argument in given for word in ("--build-arg", argument)]
    done = ma_boot("image", "build", str(context), "--tag", f"{SESSION}/fails", *options)
    assert done.code == 78, done.output
    assert "BASE_IMAGE has no python3 for the training: put an installer of conda into" in done.errors


def test_without_a_toolkit_image_the_error_names_it(
    old: str, ma_boot: Callable[..., Ran], context: Path
) -> None:
    done = ma_boot(
        "image", "build", str(context), "--tag", f"{SESSION}/fails", "--build-arg", f"BASE_IMAGE={old}"
    )
    assert done.code == 78, done.output
    assert "expected Python 3.9 or later in BASE_IMAGE, found" in done.errors
    assert "make image TOOLKIT_IMAGE=NAME" in done.errors
