"""The real `ma_boot`, for training code: it gets this directory, not the toolkit's other packages."""

import os

__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
