"""Options for the training's environment: its python, conda environment and packages."""

from __future__ import annotations

from ma_boot.cli.options.completion import FILE, files
from ma_boot.cli.options.option import RunOption, Topic

ENVIRONMENT = Topic(
    "environment",
    "Python, conda environment and packages of the training",
    (
        "ma_boot --conda-env torch --requirements pip-requirements.txt train.py",
        "ma_boot --python /opt/python/bin/python3 -m package.train --epochs 90",
    ),
    (
        RunOption("-m", "as_module", is_flag=True, common=True, help="COMMAND is a Python module."),
        RunOption(
            "--python", metavar="PATH", shell_complete=files, help="Absolute path of the training's python."
        ),
        RunOption(
            "--conda-env",
            metavar="NAME",
            common=True,
            help="Conda environment of the training, or base.",
        ),
        RunOption(
            "--source",
            **FILE,
            multiple=True,
            help="Shell file to source first, e.g. CANN's set_env.sh; here or in the job's code.",
        ),
        RunOption("--requirements", **FILE, common=True, help="Packages to install first, once per node."),
    ),
)
