"""Looks into images and compares their sizes."""

from __future__ import annotations

from typing import Any


def inside(engine: Any, image: str, *command: str, **options: Any) -> str:
    """The output of a command in a temporary container."""
    output = engine.containers.run(image, list(command), remove=True, network_mode="none", **options)
    return str(output.decode()).strip()


def grown(engine: Any, image: str, base: str) -> int:
    """How many bytes an image is larger than its base."""
    return int(engine.images.get(image).attrs["Size"] - engine.images.get(base).attrs["Size"])
