"""Facts about an image, and ModelArts' rules for it: facts in, findings out. Pure."""
