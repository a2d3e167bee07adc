"""What a test session left on an engine that is shared with others."""

from __future__ import annotations

from typing import Any

LABEL = "ma_boot.test"


class Leftovers:
    """Everything with the session's label, which images built on its bases inherit, and their containers."""

    def __init__(self, client: Any, session: str) -> None:
        self._client = client
        self._ours = {"label": f"{LABEL}={session}"}

    def running(self) -> list[str]:
        """Containers, networks and volumes."""
        client = self._client
        return [
            *(f"container {each.name}" for each in client.containers.list(all=True, filters=self._ours)),
            *(f"network {network.name}" for network in client.networks.list(filters=self._ours)),
            *(f"volume {volume.name}" for volume in client.volumes.list(filters=self._ours)),
        ]

    def remaining(self) -> list[str]:
        """The same, and images with and without a name."""
        images = self._client.images.list(filters=self._ours)
        return [*self.running(), *(f"image {image.tags or image.id}" for image in images)]

    def remove_images(self) -> None:
        """Removes the session's images and the cached stages of its builds."""
        for _ in range(2):  # an unnamed image goes only after the images that are built on it
            for image in self._client.images.list(filters=self._ours):
                for name in image.tags or [image.id]:
                    self._client.images.remove(name, force=True)
