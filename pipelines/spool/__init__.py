"""A run on this machine: reports wait in files until their window ends, and are folded as in a batch run."""
