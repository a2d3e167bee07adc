"""The Pythons of the environments that `make test-mindspore` and `make test-torch` build."""

from __future__ import annotations

from pathlib import Path

_BUILT = Path(__file__).parents[3] / ".rehearsal"
WITH_MINDSPORE = _BUILT / "anaconda3" / "envs" / "mindspore" / "bin" / "python"
WITH_TORCH = _BUILT / "torch" / "bin" / "python"
