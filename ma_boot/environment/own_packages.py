"""A place for packages of one job, where its user cannot write to the training's environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Tuple

from ma_boot.environment.training_environment import TrainingEnvironment
from ma_boot.errors import ConfigError
from ma_boot.processes import SignalInbox, run_child

# Run by the training's python, of any version. The new environment sees the training's packages by a `.pth`
# file; its pip neither installs again what fits of them, nor tries to remove what does not.
_OVERLAY = """
import os, sys, sysconfig
packages = sysconfig.get_path("purelib")
if os.access(packages, os.W_OK):
    sys.exit(0)
import venv
venv.create(sys.argv[1], symlinks=True, with_pip=False)
seen = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
name = "python%d.%d" % sys.version_info[:2]
with open(os.path.join(sys.argv[1], "lib", name, "site-packages", "_training.pth"), "w") as file:
    file.write("\\n".join(seen) + "\\n")
"""


def package_place(
    training: TrainingEnvironment, home: str, inbox: SignalInbox, remind: Callable[[], None]
) -> Tuple[str, TrainingEnvironment]:
    """The python whose pip installs packages for the training, and the training's environment that sees them.

    Both are the training's own where this user may write to its packages; otherwise packages go to an
    environment below `home`, which comes first on PYTHONPATH.

    Raises:
        ConfigError: neither of them can be written.
        Stopped: a stop signal arrived.
    """
    place = os.path.join(home, ".ma_boot", "packages")
    code = run_child(
        [training.python, "-c", _OVERLAY, place], training.environ, inbox, remind, cwd=home, stdout=2
    )
    if code != 0:
        raise ConfigError(
            f"uid {os.geteuid()} may not write to the environment of {training.python}, and {place} cannot "
            f"be made: exit code {code}; the output of {training.python} is above"
        )
    python = os.path.join(place, "bin", "python")
    found = sorted(Path(place).glob("lib/python*/site-packages"))
    if not found or not os.path.exists(python):
        return training.python, training
    environ = dict(training.environ)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(found[-1]), environ.get("PYTHONPATH", "")]))
    environ["PATH"] = os.pathsep.join(filter(None, [environ.get("PATH", ""), os.path.dirname(python)]))
    return python, training._replace(environ=environ)
