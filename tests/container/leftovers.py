"""What the tests leave behind on an engine that others use too."""

from __future__ import annotations

from typing import Any, List, Sequence, Set

from ma_boot.image.engine import LABEL

TEST_LABEL = "ma_boot.test"


class Leftovers:
    """Containers, networks, volumes and images of one test session.

    Ours are those that carry the session's label or name, and dangling images on top of one of our `bases`
    that were not there when this was made. Another session's are never touched.
    """

    def __init__(self, client: Any, session: str, bases: Sequence[str]) -> None:
        self._client = client
        self._session = session
        self._bases = [client.images.get(base).attrs["RootFS"]["Layers"] for base in bases]
        self._earlier: Set[str] = {str(image.id) for image in self._dangling()}

    def running(self) -> List[str]:
        """Containers, networks and volumes."""
        session = {"label": f"{TEST_LABEL}={self._session}"}
        client = self._client
        containers = client.containers.list(all=True, filters=session)
        probes = client.containers.list(all=True, filters={"label": f"{LABEL}=probe"})
        ours = [container for container in probes if self._session in str(container.attrs["Config"]["Image"])]
        return [
            *(f"container {container.name}" for container in [*containers, *ours]),
            *(f"network {network.name}" for network in client.networks.list(filters=session)),
            *(f"volume {volume.name}" for volume in client.volumes.list(filters=session)),
        ]

    def found(self) -> List[str]:
        """Everything, images too."""
        images = [tag for image in self._client.images.list() for tag in image.tags if self._session in tag]
        dangling = [f"dangling image {image.id}" for image in self._dangling() if self._is_new(image)]
        return [*self.running(), *(f"image {tag}" for tag in images), *dangling]

    def remove_images(self) -> None:
        """The session's tags, and the stages that its builds left as a cache for the next one."""
        for image in self._client.images.list():
            for tag in image.tags:
                if self._session in tag:
                    self._client.images.remove(tag, force=True)
        for image in self._dangling():
            if self._is_new(image):
                self._client.images.remove(str(image.id), force=True)

    def _dangling(self) -> List[Any]:
        return list(self._client.images.list(filters={"dangling": True}))

    def _is_new(self, image: Any) -> bool:
        layers = image.attrs["RootFS"].get("Layers") or []
        return str(image.id) not in self._earlier and any(layers[: len(own)] == own for own in self._bases)
