"""For training code: sets up MindSpore, notes checkpoints, loads configurations, replaces the zoo's helpers.

It is imported in the training's own environment, so it runs on Python 3.7 with the standard library only.
"""

from ma_boot.training.checkpoint_note import checkpoint as checkpoint, restored_step as restored_step
from ma_boot.training.configuration import Config as Config, load_config as load_config
from ma_boot.training.environment import init_env as init_env
from ma_boot.training.model_zoo import moxing_wrapper as moxing_wrapper
from ma_boot.training.save_request import should_save as should_save
