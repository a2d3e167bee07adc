"""Material for those who help with a failed job: one JSON document, a bundle of files, a second diagnosis."""
