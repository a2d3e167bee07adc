"""For training code: MindSpore's environment, configuration, and what the model zoo's scripts import.

Imported in the training's own environment, not in the toolkit's: the standard library alone at import, and
nothing newer than Python 3.7 knows.
"""

from ma_boot.training.configuration import Config, load_config
from ma_boot.training.environment import init_env
from ma_boot.training.model_zoo import moxing_wrapper

__all__ = ["Config", "init_env", "load_config", "moxing_wrapper"]
