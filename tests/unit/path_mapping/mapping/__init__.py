"""The mapping file: formats, rules, what is refused."""
