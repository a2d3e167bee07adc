"""The ETags that content has which is stored in parts."""

from __future__ import annotations

from typing import Iterable, List, Union

from path_mapping.localfs import new_md5
from path_mapping.wire.obs_responses import etag_of_parts


class PartDigests:
    """The MD5s of the parts of some content, for several sizes of parts in bytes."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._digests = {size: [new_md5()] for size in sizes}
        self._passed = 0

    def add(self, piece: Union[bytes, memoryview]) -> None:
        """Takes the next piece of the content."""
        for size, digests in self._digests.items():
            view, left = memoryview(piece), size * len(digests) - self._passed
            while view:
                if not left:
                    digests.append(new_md5())
                    left = size
                digests[-1].update(view[:left])
                view, left = view[left:], max(0, left - len(view))
        self._passed += len(piece)

    def etags(self) -> List[str]:
        """The ETag of the whole for each size, as that of an object which is uploaded in such parts."""
        return [
            etag_of_parts(tuple(one.hexdigest() for one in digests)) for digests in self._digests.values()
        ]
