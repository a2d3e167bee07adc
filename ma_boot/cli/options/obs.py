"""Options for the inputs and outputs in OBS."""

from __future__ import annotations

from ma_boot.cli.options.completion import DIR, FILE
from ma_boot.cli.options.option import SECONDS, SECONDS_ABOVE_0, RunOption, Topic

OBS = Topic(
    "obs",
    "the inputs and outputs of the training in OBS",
    (
        "ma_boot --path-mapping path_mapping_config.py train.py",
        "ma_boot --path-mapping path_mapping_config.py --upload-timeout 1800 train.py",
    ),
    (
        RunOption(
            "--path-mapping",
            **FILE,
            everyday="Inputs and outputs in OBS: path_mapping_config.py.",
            help="path_mapping_config.py: inputs and outputs in OBS.",
        ),
        RunOption("--obs-root", **DIR, help="Take obs://BUCKET/KEY from DIR/BUCKET/KEY instead of OBS."),
        RunOption(
            "--upload-timeout",
            **SECONDS,
            default=600,
            help="Longest last upload.",
        ),
        RunOption(
            "--stall-timeout",
            **SECONDS_ABOVE_0,
            default=60,
            help="A request to OBS of which nothing moves for so long has failed, and is made again.",
        ),
    ),
    "See `ma_boot sync --help` for moving them without a job.",
)
