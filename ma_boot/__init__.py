"""Boots one node of a training job on Huawei Cloud ModelArts from an own container image."""

__version__ = "0.1.0"
