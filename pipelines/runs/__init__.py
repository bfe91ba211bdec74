"""A run: its output folder, its lock, its schedule, and how it is watched."""
