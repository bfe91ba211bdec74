"""The study file: its models, its YAML, and what it compiles to."""
