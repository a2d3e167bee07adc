"""The functions of `moxing.file` on local paths and OBS: `import path_mapping as mox; mox.file.exists(...)`.

Names, arguments and results are those of MoXing's API reference. A URL begins with `obs://` or `s3://`;
repeated slashes count as one. Transfers are those of the path mapping: verified, each file completely or not
at all, and files that are the same on both sides are skipped. A function that is given a URL raises
`StoreError` (`MoxFileRespException` is the same class) when a request fails even after retries.
"""

from path_mapping.mox import *  # noqa: F403 -- the public names are listed once, in the room
from path_mapping.mox import __all__ as __all__
