"""The texts of the page in English and Chinese."""

from ma_boot.reporting.page.language.words import (
    INCIDENTS,
    OUR_CODE,
    OUR_CODES,
    PHASES,
    ROLES,
    TRAINING_CODE,
    Text,
    code_shown,
    phase_name,
    ranges,
    same,
)

__all__ = [
    "INCIDENTS",
    "OUR_CODE",
    "OUR_CODES",
    "PHASES",
    "ROLES",
    "TRAINING_CODE",
    "Text",
    "code_shown",
    "phase_name",
    "ranges",
    "same",
]
