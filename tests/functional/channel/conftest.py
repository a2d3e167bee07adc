"""The fixtures of the supervisor's tests."""

from tests.functional.supervisor.conftest import inbox as inbox, journal as journal, started as started
