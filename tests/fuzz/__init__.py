"""Fuzzing: inputs that break each decoder's rules on purpose, decoded in child processes with limits."""
