"""Single objects in OBS: a part of `ObsStore`, on its client."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any, Callable, Iterator, Optional

from path_mapping.errors import NotFound, Refused, Unreachable
from path_mapping.localfs import CHUNK
from path_mapping.stores.file_store import Known
from path_mapping.stores.store import StoredObject

LARGEST_COPY = 5 << 30  # bytes, that OBS copies in one request (API reference, "Copying an Object")
PAGE = 1000  # names in one answer, the most that OBS gives


class ObsFiles:
    """The operations of `FileStore`, on what `ObsStore` has."""

    _client: Any
    _call: Callable[..., Any]
    _guarded: Callable[..., Any]
    _from: Callable[[str, str, int], Any]
    read: Callable[[str, str], Iterator[bytes]]

    def find(self, bucket: str, key: str) -> Optional[Known]:
        """The object; None where there is none."""
        doing = f"looking at obs://{bucket}/{key}"
        try:
            body = self._call(
                doing, lambda: self._client.getObjectMetadata(bucket, key), "contentLength"
            ).body
        except NotFound:
            return None
        modified = parsedate_to_datetime(body.lastModified).timestamp() if body.lastModified else 0.0
        return Known(int(body.contentLength), int(modified * 1e9))

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """What is right below the prefix; of a directory only its name."""
        doing, marker = f"listing obs://{bucket}/{prefix}", ""

        def page() -> Any:
            return self._client.listObjects(
                bucket,
                prefix=prefix or None,
                marker=marker or None,
                max_keys=PAGE,
                delimiter="/",
                encoding_type="url",
            )

        while True:
            body = self._call(doing, page, "contents").body
            found = [StoredObject(one.key, int(one.size), None, one.etag or "") for one in body.contents]
            found += [StoredObject(one.prefix, 0, None) for one in body.commonPrefixs or ()]
            found = sorted((one for one in found if one.key > marker), key=lambda one: one.key)
            yield from (one for one in found if one.key != prefix)
            if not found or not (body.is_truncated or len(found) >= PAGE):
                return
            marker = found[-1].key

    def read_from(self, bucket: str, key: str, offset: int) -> Iterator[bytes]:
        """The bytes from this one on, whether the server knows ranges or not."""
        if offset == 0:
            yield from self.read(bucket, key)
            return
        doing = f"reading obs://{bucket}/{key} from {offset}"
        answer = self._call(doing, lambda: self._from(bucket, key, offset), "response")
        response, left = answer.body.response, answer.body.contentLength
        skipped = 0 if answer.status == 206 else offset
        try:
            while True:
                piece = self._guarded(doing, lambda: response.read(CHUNK))
                if not piece:
                    break
                left = None if left is None else int(left) - len(piece)
                yield piece[skipped:]
                skipped = max(0, skipped - len(piece))
            if left:
                raise Unreachable(f"{doing}: the answer ended {left} bytes early")
        finally:
            response.close()

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Copies inside of OBS; an object of more than 5 GiB is refused."""
        doing = f"copying obs://{bucket}/{key} to obs://{to_bucket}/{to_key}"
        found = self.find(bucket, key)
        if found is None:
            raise NotFound(f"{doing}: no such object")
        if found.size > LARGEST_COPY:
            raise Refused(f"{doing}: {found.size} bytes, OBS copies 5 GiB: copy it by way of a local file")
        self._call(doing, lambda: self._client.copyObject(bucket, key, to_bucket, to_key))

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object; one that does not exist is deleted already."""
        self._call(f"deleting obs://{bucket}/{key}", lambda: self._client.deleteObject(bucket, key))
