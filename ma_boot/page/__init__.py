"""The picture of a job: events of its nodes -> a `Timeline` -> one self-contained HTML page."""
