"""`conda activate` of conda itself beside ma_boot, wherever `MABOOT_CONDA_SOURCE` names conda's sources.

`MABOOT_CONDA_PYTHON` is a python with conda's dependencies; without it, the one that runs the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from ma_boot.node.environment.conda import find_environment, plan_activation
from ma_boot.node.environment.shell import environment_in_shell
from ma_boot.processes.signals import SignalInbox

SOURCE = os.environ.get("MABOOT_CONDA_SOURCE", "")
PYTHON = os.environ.get("MABOOT_CONDA_PYTHON", sys.executable)
pytestmark = pytest.mark.skipif(not SOURCE, reason="MABOOT_CONDA_SOURCE does not name the sources of conda")

TARGETS = ["base", "plain", "full", "user", "moved"]
STATES = ["new", "hooked", "base", "full", "same", "stacked", "no level"]
# bash sets the first four for itself; the others are for an interactive shell
NOT_COMPARED = r"_|SHLVL|PWD|OLDPWD|CONDA_PROMPT_MODIFIER|_CE_\w+|__CONDA_SHLVL_\d+_\w+"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An installation whose conda runs from the sources, with environments in all of conda's places."""
    root = tmp_path / "conda root"
    for prefix in (
        root, root / "envs" / "plain", root / "envs" / "full",
        tmp_path / ".conda" / "envs" / "user", tmp_path / "elsewhere" / "moved",
    ):  # fmt: skip
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(PYTHON)
        (prefix / "conda-meta").mkdir()
        (prefix / "conda-meta" / "history").touch()
    (tmp_path / ".condarc").write_text(f"envs_dirs: [{tmp_path}/elsewhere]\nauto_activate: false\n")
    program = root / "bin" / "conda"
    program.write_text(
        f"#!{PYTHON}\nimport sys\nsys.path.insert(0, {SOURCE!r})\n"
        f"sys.prefix, sys.executable = {str(root)!r}, {str(root / 'bin' / 'python')!r}\n"
        "from conda.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    _configure(root / "envs" / "full", "full")
    _configure(root, "base")
    return root


def _configure(prefix: Path, name: str) -> None:
    etc = prefix / "etc" / "conda"
    for directory in ("activate.d", "deactivate.d", "env_vars.d"):
        (etc / directory).mkdir(parents=True)
    state = {"env_vars": {"lower_case": name, "KEPT": "***unset***", "B": "of state", "HAD": "after"}}
    (prefix / "conda-meta" / "state").write_text(json.dumps(state))
    (etc / "env_vars.d" / "p").write_text('{"A": "of a package", "B": "of a package", "PATH": "/not/this"}')
    for kind in ("activate.d", "deactivate.d"):
        for script in ("a.sh", "b.sh"):
            text = f'export ORDER="$ORDER {name}/{kind}/{script}:$CONDA_SHLVL:$A" PATH="/{name}:$PATH"\n'
            (etc / kind / script).write_text(text)
        (etc / kind / "c.sh").symlink_to("/no/such/file")
        (etc / kind / "d.sh").mkdir()
        (etc / kind / "e.csh").write_text("exit 1\n")
    (etc / "deactivate.d" / "f.sh").write_text("unset LEAK\n")


def by_conda(script: str, environ: dict[str, str]) -> dict[str, str]:
    """The environment after a script in a shell into which conda's hook has been loaded."""
    dump = "command -p env -0"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", f"{script}\n{dump}"],
        env=environ, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    pairs = (entry.partition("=") for entry in done.stdout.decode().split("\0") if entry)
    return {name: value for name, _, value in pairs if not re.fullmatch(NOT_COMPARED, name)}


def start(root: Path, state: str, target: str) -> dict[str, str]:
    """The environment in which `target` is activated."""
    environ = {
        "PATH": f"/first:{root}/envs/full/bin:/usr/local/bin::/usr/bin:/bin", "HOME": str(root.parent),
        "HAD": "before", "KEPT": "before", "LEAK": "of what was active", "LD_LIBRARY_PATH": "/usr/local/lib",
    }  # fmt: skip
    hook = f'eval "$("{root}/bin/conda" shell.posix hook)"\n'
    before = {
        "new": "",
        "hooked": hook,
        "base": f"{hook}conda activate base",
        "full": f"{hook}conda activate full",
        "same": f"{hook}conda activate base; conda activate {target}",
        "stacked": f"{hook}conda activate base; conda activate --stack full",
        "no level": f"export CONDA_PREFIX={str(root)!r}",
    }[state]
    environ = by_conda(before, environ)
    return {name: value for name, value in environ.items() if name != "_"}


@pytest.mark.parametrize(("state", "target"), list(product(STATES, TARGETS)))
def test_the_environment_is_the_one_of_conda_activate(root: Path, state: str, target: str) -> None:
    environ = start(root, state, target)
    hook = f'eval "$("{root}/bin/conda" shell.posix hook)"\n'
    theirs = by_conda(f"{hook}conda activate {target}", environ)
    home = str(root.parent)
    selected = find_environment(None, target, {**environ, "ANACONDA_DIR": str(root)}, home)
    with SignalInbox() as inbox:
        _, ours = environment_in_shell(plan_activation(selected, environ, home), [], environ, inbox, print)
    ours = {name: value for name, value in ours.items() if not re.fullmatch(NOT_COMPARED, name)}
    library = f"{selected.prefix}/lib"  # ma_boot's own addition
    assert ours.pop("LD_LIBRARY_PATH").split(":")[0] == library
    theirs.pop("LD_LIBRARY_PATH", None)
    assert ours == theirs
