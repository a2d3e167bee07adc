"""The objects that the server keeps."""
