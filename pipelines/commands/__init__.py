"""What a person types: one module per command, its arguments and options."""
