"""Rules of the supervisor."""
