"""What a test session left on an engine that others use too."""

from __future__ import annotations

from typing import Any, List

LABEL = "ma_boot.test"


class Leftovers:
    """All that carries the session's label: images built on its bases inherit it, and their containers too."""

    def __init__(self, client: Any, session: str) -> None:
        self._client = client
        self._ours = {"label": f"{LABEL}={session}"}

    def running(self) -> List[str]:
        """Containers, networks and volumes."""
        client = self._client
        return [
            *(f"container {found.name}" for found in client.containers.list(all=True, filters=self._ours)),
            *(f"network {found.name}" for found in client.networks.list(filters=self._ours)),
            *(f"volume {found.name}" for found in client.volumes.list(filters=self._ours)),
        ]

    def found(self) -> List[str]:
        """Everything, images with and without a name too."""
        images = self._client.images.list(filters=self._ours)
        return [*self.running(), *(f"image {image.tags or image.id}" for image in images)]

    def remove_images(self) -> None:
        """The images of the session, and the stages that its builds left as a cache for the next one."""
        for _ in range(2):  # those without a name go after those that were made of them
            for image in self._client.images.list(filters=self._ours):
                for name in image.tags or [image.id]:
                    self._client.images.remove(name, force=True)
