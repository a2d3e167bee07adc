"""The training's environment and command."""
