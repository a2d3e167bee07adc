"""Dropped files of `path_mapping.file` are uploaded as Python flushes its own; a `with` block that fails uploads nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.transfer.interpreters import environment, pythons
from tests.obs import MemoryObs, obs_fault
from tests.unit.project.imports import ROOT

PRELUDE = """
import contextlib, gc, io, json, os, sys, threading
import path_mapping as mox
mox.file.shift("os", "mox")
url, bad = "obs://bucket/" + name, {"one": 1, "two": object()}
def save(content):
    json.dump(content, open(url, "w"))
def keep(content):
    file = open(url, "w")
    json.dump(content, file)
def lines():
    with open(url, "w") as file:
        while True:
            file.write((yield))
"""
HALF = '{"one": 1, "two": '
OLD = "as it was"
CLOSED: dict[str, str] = {
    "closed in its with": "with open(url, 'w') as file:\n    file.write('{}')\n    file.close()",
}
DROPPED: dict[str, str] = {  # uploaded while the program runs
    "temporary": "save({})",
    "called on": "open(url, 'w').write('{}')",
    "bytes": "open(url, 'wb').write(b'{}')",
    "updated": "open(url, 'r+').write('{}       ')",
    "local": "keep({})",
    "deleted": "file = open(url, 'w')\nfile.write('{}')\ndel file",
    "in a handler": "try:\n    [][0]\nexcept IndexError as error:\n    save({})",
    "in a thread": "thread = threading.Thread(target=keep, args=[{}])\nthread.start()\nthread.join()",
    "in a cycle": "cycle = [open(url, 'w')]\ncycle[0].write('{}')\ncycle.append(cycle)\ndel cycle\ngc.collect()",
    "in a cycle, bytes": "cycle = [open(url, 'wb')]\ncycle[0].write(b'{}')\ncycle.append(cycle)\ndel cycle\ngc.collect()",
    "in a cycle, in a handler": "cycle = [open(url, 'w')]\ncycle[0].write('{}')\ncycle.append(cycle)\ndel cycle\n"
    "try:\n    [][0]\nexcept IndexError:\n    gc.collect()",
    "in a frame of a cycle": "def f():\n    file = open(url, 'w')\n    file.write('{}')\n    me = lambda: (file, me)\nf()\ngc.collect()",
}
AS_IT_IS: dict[str, str] = {  # an exception drops it: what there is goes up, as Python flushes its own
    "an exception": "try:\n    save(bad)\nexcept TypeError:\n    pass",
    "an exception, kept": "try:\n    save(bad)\nexcept TypeError as error:\n    print(error)",
    "an exception, suppressed": "with contextlib.suppress(TypeError): json.dump(bad, open(url, 'w'))",
    "an exception in a function": "def f():\n    try:\n        json.dump(bad, open(url, 'w'))\n    except TypeError:\n        return 1\nf()",
    "a generator without with": "def f():\n    file = open(url, 'w')\n    file.write('"
    + HALF
    + "')\n    yield\n"
    "once = f()\nnext(once)\nonce.close()",
}
AT_EXIT: dict[str, str] = {  # each in a program of its own
    "open at the end": "file = open(url, 'w')\nfile.write('{}')",
    "open in a module": "sys.file = open(url, 'wb')\nsys.file.write(b'{}')",
    "open in a cycle": "cycle = [open(url, 'w')]\ncycle[0].write('{}')\ncycle.append(cycle)",
    "detached": "file = open(url, 'w')\nfile.write('{}')\nbuffer = file.detach()",
    "exit": "file = open(url, 'w')\nfile.write('{}')\nsys.exit(3)",
    "uncaught": "file = open(url, 'w')\nfile.write('{}')\n[][0]",
    "in a forked child": "file = open(url, 'w')\nfile.write('{}')\nif os.fork() == 0: sys.exit()\nos.wait()",
    "dropped in a forked child": "file = open(url, 'w')\nfile.write('{}')\nif os.fork() == 0:\n    del file\n    os._exit(0)\nos.wait()",
}
FAILED: dict[str, str] = {  # a `with` that ends by an exception replaces nothing
    "with": "with contextlib.suppress(TypeError), open(url, 'w') as file:\n    json.dump(bad, file)",
    "with, bytes": "with contextlib.suppress(TypeError), open(url, 'wb') as file:\n    file.write(b'{')\n    file.write(1)",
    "with, appended": "with contextlib.suppress(TypeError), open(url, 'a') as file:\n    json.dump(bad, file)",
    "with, updated": "with contextlib.suppress(TypeError), open(url, 'r+') as file:\n    json.dump(bad, file)",
    "with, much": "with contextlib.suppress(TypeError), open(url, 'w') as file:\n    file.write('x' * 100000)\n    raise TypeError",
    "with, interrupted": "with contextlib.suppress(KeyboardInterrupt), open(url, 'w') as file:\n    file.write('{')\n    raise KeyboardInterrupt",
    "with, in an exit stack": "with contextlib.suppress(TypeError), contextlib.ExitStack() as stack:\n"
    "    json.dump(bad, stack.enter_context(open(url, 'w')))",
    "with, in a generator that is closed": "once = lines()\nnext(once)\nonce.send('{')\nonce.close()",
    "with, in a generator that is dropped": "once = lines()\nnext(once)\nonce.send('{')\ndel once",
    "with, in a generator that fails": "once = lines()\nnext(once)\nonce.send('{')\nwith contextlib.suppress(KeyError): once.throw(KeyError())",
}
FAILED_AT_EXIT: dict[str, str] = {
    "with, in a daemon thread": "def f():\n    with open(url, 'w') as file:\n        file.write('{')\n        begun.set()\n"
    "        threading.Event().wait()\nbegun = threading.Event()\nthreading.Thread(target=f, daemon=True).start()\nbegun.wait()",
    "with, at exit": "with open(url, 'w') as file:\n    file.write('{')\n    sys.exit(1)",
    "with, uncaught": "with open(url, 'w') as file:\n    json.dump(bad, file)",
}
CASES = {**CLOSED, **DROPPED, **AS_IT_IS, **AT_EXIT, **FAILED, **FAILED_AT_EXIT}
CONTENTS = {
    **dict.fromkeys([*CLOSED, *DROPPED, *AT_EXIT], "{}"),
    **dict.fromkeys(AS_IT_IS, HALF),
    **dict.fromkeys([*FAILED, *FAILED_AT_EXIT], OLD),
    "updated": "{}       ",
}
PROGRAM = """
import json, sys
prelude, cases = json.loads(sys.argv[1])
for name, code in cases.items():
    exec(prelude + code, {"name": name})
"""


@pytest.mark.invariant(
    "A file of `mox.file` replaces its object when it is closed or dropped, never when its `with` block ends by an exception"
)
@pytest.mark.parametrize("python", pythons(), ids=lambda python: "-".join(Path(python).parts[-3:-2]))
def test_dropped_files_are_uploaded_and_failed_with_blocks_are_not(tmp_path: Path, python: str) -> None:
    runs = [{name: CASES[name] for name in [*CLOSED, *DROPPED, *AS_IT_IS, *FAILED]}]
    runs += [{name: CASES[name]} for name in [*AT_EXIT, *FAILED_AT_EXIT]]
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    environ = {"PYTHONPATH": str(ROOT / "ma_boot" / "for_training"), "PATH_MAPPING_OBS_ROOT": str(tmp_path)}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    errors = ""
    for cases in runs:
        for name in cases:
            (bucket / name).write_text(OLD)
        argv = [python, "-W", "default::ResourceWarning", "-c", PROGRAM, json.dumps([PRELUDE, cases])]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=110, check=False)
        errors += done.stderr
    assert {name: (bucket / name).read_text() for name in CASES} == CONTENTS, errors
    dropped = {*DROPPED, *AS_IT_IS, *AT_EXIT}
    expected = {
        "never closed; it is uploaded": dropped - {"detached"},  # its text was uploaded when it was detached
        "ResourceWarning": {*dropped, "with, in a daemon thread"},
        "was not uploaded: its `with` block": {*FAILED, *FAILED_AT_EXIT},
    }
    lines = errors.splitlines()
    for words, names in expected.items():
        assert {
            name
            for name in CASES
            if any(f"obs://bucket/{name} was" in line and words in line for line in lines)
        } == names, errors


def run(server: MemoryObs, python: str, program: str) -> subprocess.CompletedProcess[str]:
    argv = [python, "-W", "ignore", "-c", program]
    return subprocess.run(
        argv, env=environment(server), capture_output=True, text=True, timeout=110, check=False
    )


@pytest.mark.parametrize(
    "python",
    [python for python in pythons() if not {"3.7", "3.8", "3.9"} & {part[:3] for part in Path(python).parts}],
    ids=lambda python: "-".join(Path(python).parts[-3:-2]),
)
def test_a_large_file_is_uploaded_at_exit(obs: MemoryObs, python: str) -> None:
    """In parts, by threads: Python 3.12 starts none once the interpreter ends."""
    program = "import path_mapping as mox; file = mox.file.File('obs://bucket/large', 'wb'); file.write(bytes(70 << 20))"
    done = run(obs, python, program)
    assert done.returncode == 0, done.stderr
    program = "import path_mapping as mox; print(mox.file.get_size('obs://bucket/large'))"
    assert run(obs, sys.executable, program).stdout == f"{70 << 20}\n", done.stderr


@pytest.mark.parametrize("end", ["del file", ""])
def test_the_failed_upload_of_a_dropped_file_is_logged(obs: MemoryObs, end: str) -> None:
    obs.faults.append(obs_fault("403", "PUT"))
    program = (
        f"import path_mapping as mox; file = mox.file.File('obs://bucket/x', 'w'); file.write('x'); {end}"
    )
    done = run(obs, sys.executable, program)
    assert "obs://bucket/x was not uploaded: writing obs://bucket/x: HTTP 403" in done.stderr
    assert "Traceback" not in done.stderr


def test_content_that_does_not_fit_into_the_temporary_file_is_not_uploaded(obs: MemoryObs) -> None:
    program = """
import resource, signal, path_mapping as mox
mox.file.write("obs://bucket/x", "good")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for mode in ("w", "wb"):
    file = mox.file.File("obs://bucket/x", mode)
    file.write("x" * 2000 if mode == "w" else b"x" * 2000)
    try:
        file.close()
    except OSError as error:
        print(error.errno, mox.file.read("obs://bucket/x"))
file = mox.file.File("obs://bucket/x", "w")
file.write("x" * 2000)
del file
print(mox.file.read("obs://bucket/x"))
"""
    done = run(obs, sys.executable, program)
    assert done.stdout == "27 good\n27 good\ngood\n", done.stderr
    assert done.stderr.count("x was not uploaded: not all of it could be written") == 3


def test_a_program_that_is_killed_replaces_nothing(obs: MemoryObs) -> None:
    program = """
import os, signal, path_mapping as mox
mox.file.write("obs://bucket/x", "good")
file = mox.file.File("obs://bucket/x", "w")
file.write("half" * 10000)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(obs, sys.executable, program).returncode == -signal.SIGKILL
    read = "import path_mapping as mox; print(mox.file.read('obs://bucket/x'))"
    assert run(obs, sys.executable, read).stdout == "good\n"
