"""Unit tests of ma_boot.node.peers."""
