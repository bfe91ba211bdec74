"""What a person starts: ``estimate``, ``perturb``, ``explain``, ``schema``, and lists of what there is."""
