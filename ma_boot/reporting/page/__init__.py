"""A job's `Timeline` as one self-contained HTML page."""

from ma_boot.reporting.page.read import (
    event_files as event_files,
    page_of as page_of,
    write_in_time as write_in_time,
)
