"""The output folder of a run: its names and its files, written and read."""
