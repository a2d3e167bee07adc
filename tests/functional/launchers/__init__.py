"""Command lines of the how-to page on launchers, and stand-ins for launchers."""
