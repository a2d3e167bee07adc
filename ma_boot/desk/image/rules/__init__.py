"""What is known about an image, and ModelArts' rules for it: facts in, findings out. Pure."""
