"""For training code: sets up MindSpore, notes checkpoints, loads configurations, replaces the zoo's helpers.

It is imported in the training's own environment, so it runs on Python 3.7 with the standard library only.
"""

from ma_boot.training.checkpoint_note import checkpoint, restored_step
from ma_boot.training.configuration import Config, load_config
from ma_boot.training.environment import init_env
from ma_boot.training.model_zoo import moxing_wrapper

__all__ = ["Config", "checkpoint", "init_env", "load_config", "moxing_wrapper", "restored_step"]
