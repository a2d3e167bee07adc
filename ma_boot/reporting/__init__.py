"""What a run tells: output, events and the verdict."""
