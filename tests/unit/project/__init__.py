"""The project itself: its architecture, documents and versions."""
