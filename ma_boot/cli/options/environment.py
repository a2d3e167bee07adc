"""Options for the environment of the training: its python, conda environment and packages."""

from __future__ import annotations

from ma_boot.cli.options.completion import FILE, files
from ma_boot.cli.options.option import RunOption, Topic

ENVIRONMENT = Topic(
    "environment",
    "the python, conda environment and packages of the training",
    (
        "ma_boot --conda-env torch --requirements pip-requirements.txt train.py",
        "ma_boot --python /opt/python/bin/python3 -m package.train --epochs 90",
    ),
    (
        RunOption(
            "-m",
            "as_module",
            is_flag=True,
            everyday="COMMAND is a Python module.",
            help="COMMAND is a Python module.",
        ),
        RunOption(
            "--python",
            metavar="PATH",
            shell_complete=files,
            help="Absolute path of the python that runs the training.",
        ),
        RunOption(
            "--conda-env",
            metavar="NAME",
            everyday="Conda environment of the training.",
            help="Conda environment of the training, as `conda run -n NAME`.",
        ),
        RunOption(
            "--source",
            **FILE,
            multiple=True,
            help="Shell file to source before, e.g. CANN's set_env.sh.",
        ),
        RunOption(
            "--requirements",
            **FILE,
            everyday="Packages to install before.",
            help="Packages to install before, once on each node, e.g. pip-requirements.txt.",
        ),
    ),
)
