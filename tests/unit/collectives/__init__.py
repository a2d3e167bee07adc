"""Rules for collectives in which ranks hang: records, their comparison, and how they are read."""
