"""Tests with real files, processes and servers."""
