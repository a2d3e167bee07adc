"""Files of `path_mapping.file` that nobody closes: whole ones are uploaded, those that an exception cut short are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from tests.unit.project.imports import ROOT

PRELUDE = """
import contextlib, gc, json, sys, threading
import path_mapping as mox
mox.file.shift("os", "mox")
url, bad = "obs://bucket/" + name, {"one": 1, "two": object()}
def save(content):
    json.dump(content, open(url, "w"))
def keep(content):
    file = open(url, "w")
    json.dump(content, file)
def log(error):
    try:
        raise KeyError(error)
    except KeyError as again:
        return str(again)
"""
WHOLE: Dict[str, str] = {
    "temporary": "save({})",
    "called on": "open(url, 'w').write('{}')",
    "local": "keep({})",
    "deleted": "file = open(url, 'w')\nfile.write('{}')\ndel file",
    "rebound": "file = open(url, 'w')\nfile.write('{}')\nfile = None\nprint(file)",
    "open at the end": "file = open(url, 'w')\nfile.write('{}')",
    "in a handler": "try:\n    [][0]\nexcept IndexError as error:\n    save({})",
    "in a handler of a function": "def f():\n    try:\n        [][0]\n    except IndexError:\n        keep({})\nf()",
    "handled inside": "def f():\n    file = open(url, 'w')\n    log(1)\n    file.write('{}')\n    log(2)\nf()",
    "beside a handler": "file = open(url, 'w')\nlog(1)\nfile.write('{}')\nlog(2)",
    "collected in a handler": "cycle = [open(url, 'w')]\ncycle[0].write('{}')\ncycle.append(cycle)\ndel cycle\n"
    "try:\n    [][0]\nexcept IndexError:\n    gc.collect()",
    "in a thread": "thread = threading.Thread(target=keep, args=[{}])\nthread.start()\nthread.join()",
    "at the end, after an error": "log(1)\nfile = open(url, 'w')\nfile.write('{}')",
    "closed in spite of an error": "def f():\n    file = open(url, 'w')\n    try:\n        file.write('{}')\n"
    "        [][0]\n    except IndexError:\n        file.close()\nf()",
}
HALF: Dict[str, str] = {
    "except": "try:\n    save(bad)\nexcept TypeError:\n    pass",
    "except as": "try:\n    save(bad)\nexcept TypeError as error:\n    print(error)",
    "except as, in a function": "def f():\n    try:\n        keep(bad)\n    except TypeError as error:\n        print(error)\nf()",
    "in the same function": "def f():\n    try:\n        json.dump(bad, open(url, 'w'))\n    except TypeError:\n        return 1\nf()",
    "in a loop": "for _ in range(1):\n    try:\n        save(bad)\n    except TypeError:\n        continue",
    "suppress": "with contextlib.suppress(TypeError): json.dump(bad, open(url, 'w'))",
    "another error": "try:\n    try:\n        save(bad)\n    except TypeError as error:\n        raise OSError from error\n"
    "except OSError:\n    pass",
    "deleted in the handler": "try:\n    file = open(url, 'w')\n    json.dump(bad, file)\nexcept TypeError:\n    del file",
    "cut short in a thread": "threading.excepthook = print\nthread = threading.Thread(target=save, args=[bad])\n"
    "thread.start()\nthread.join()",
    "uncaught": "save(bad)",
    "uncaught, open": "file = open(url, 'w')\njson.dump(bad, file)",
    "exit in a handler": "try:\n    save(bad)\nexcept TypeError:\n    sys.exit(1)",
    "exception kept": "kept = []\ntry:\n    save(bad)\nexcept TypeError as error:\n    kept.append(error)",
}


AT_THE_END = ("open at the end", "at the end, after an error", "uncaught", "uncaught, open", "exit in a handler", "exception kept")  # fmt: skip
PROGRAM = """
import json, sys
prelude, cases = json.loads(sys.argv[1])
for name, code in cases.items():
    exec(prelude + code, {"name": name})
"""


def pythons() -> List[str]:
    """This interpreter, and one of each other version from 3.7 on that pyenv has: their bytecodes differ."""
    found = {sys.version_info[1]: sys.executable}
    for python in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python")):
        found.setdefault(int(python.parts[-3].split(".")[1]), str(python))
    return [python for minor, python in found.items() if minor >= 7]


@pytest.mark.parametrize("python", pythons(), ids=lambda python: "-".join(Path(python).parts[-3:-2]))
def test_what_an_exception_cut_short_is_not_uploaded(tmp_path: Path, python: str) -> None:
    everything = {**WHOLE, **HALF}
    runs = [{name: code for name, code in everything.items() if name not in AT_THE_END}]
    runs += [{name: everything[name]} for name in AT_THE_END]
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    environ = {"PYTHONPATH": str(ROOT / "ma_boot" / "for_training")}
    environ["PATH_MAPPING_OBS_ROOT"] = str(tmp_path)
    said = ""
    for cases in runs:
        for name in cases:
            (bucket / name).write_text("as it was")
        argv = [python, "-c", PROGRAM, json.dumps([PRELUDE, cases])]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=110, check=False)
        said += done.stderr
    stored = {name: (bucket / name).read_text() for name in everything}
    assert stored == {**dict.fromkeys(WHOLE, "{}"), **dict.fromkeys(HALF, "as it was")}, said
    warned = {name for name in everything if f"obs://bucket/{name} was not uploaded" in said}
    assert warned == set(HALF), said
