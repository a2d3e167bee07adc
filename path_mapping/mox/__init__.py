"""The MoXing API on local paths and OBS."""
