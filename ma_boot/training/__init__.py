"""For training code: sets up MindSpore, loads configurations, and replaces helpers of MindSpore's model zoo.

It is imported in the training's own environment, so it runs on Python 3.7 with the standard library only.
"""

from ma_boot.training.configuration import Config, load_config
from ma_boot.training.environment import init_env
from ma_boot.training.model_zoo import moxing_wrapper

__all__ = ["Config", "init_env", "load_config", "moxing_wrapper"]
