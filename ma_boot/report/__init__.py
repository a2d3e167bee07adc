"""What a run reports: output, events, and how it ended."""
