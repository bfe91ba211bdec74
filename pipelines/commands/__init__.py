"""The commands that a user types: one module per command, and the options that several share."""
