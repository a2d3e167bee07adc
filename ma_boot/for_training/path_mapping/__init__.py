"""The real `path_mapping`, for training code, as `ma_boot` beside it."""

import os

_SITE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
__path__ = [os.path.join(_SITE, "path_mapping")]
