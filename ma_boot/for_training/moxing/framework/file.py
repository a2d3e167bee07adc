"""`moxing.framework.file`, where MoXing has its file functions, is the module `path_mapping.file` itself."""

import sys

import path_mapping.file

sys.modules[__name__] = path_mapping.file
