"""Start scripts of the guides, and the lines of ma_boot that replace them."""
