"""The real `ma_boot`, importable by training code without the other packages of the toolkit."""

import os

__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
