"""URLs that the SDK signs, for requests that are made without it: a part of `ObsStore`, on its clients."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Tuple

from path_mapping.stores.http_connection import Origin
from path_mapping.stores.obs_responses import error_of_status

SIGNED_SECONDS = 900  # that a signed URL is good for: it is used at once, but clocks differ


class ObsSigning:
    """`sign`, on what `ObsStore` has; a client for each bucket, made where it is first needed."""

    _client: Any
    _secure: bool
    _in_path: bool
    _signers: Dict[str, Any]
    _lock: threading.Lock
    _guarded: Callable[..., Any]
    _new_client: Callable[..., Any]

    def sign(
        self, method: str, bucket: str, key: str, query: Dict[str, str], headers: Dict[str, str]
    ) -> Tuple[Origin, str, Dict[str, str]]:
        """Whom to ask, the path with its query, and the headers to send: by the SDK's `createSignedUrl`."""
        signer = self._signers.get(bucket)
        if signer is None:
            with self._lock:
                signer = self._signers.get(bucket) or self._new_signer(bucket)
                self._signers[bucket] = signer
        signed = signer.createSignedUrl(
            method, bucket, key, expires=SIGNED_SECONDS, headers=headers, queryParams=query
        )
        host = signed.actualSignedRequestHeaders["Host"]
        name, _, port = host.partition(":")
        url = signed.signedUrl
        path = url[url.index("/", url.index("//") + 2) :]
        origin = Origin(name, int(port or (443 if self._secure else 80)), self._secure)
        return origin, path, signed.actualSignedRequestHeaders

    def _new_signer(self, bucket: str) -> Any:
        """A client that signs in the way of the bucket's service.

        `createSignedUrl` does not ask for it, as the SDK's other calls do: OBS' own, or that of S3. What they
        found out is asked here, once.
        """
        if self._in_path:
            return self._client  # always that of S3, says the SDK
        doing = f"asking obs://{bucket} for its signature"
        kind, answer = self._guarded(doing, lambda: self._client._getApiVersion(bucket))
        if not kind:
            raise error_of_status(doing, answer.status, answer.errorCode)
        return self._new_client(signature=kind, is_signature_negotiation=False)
