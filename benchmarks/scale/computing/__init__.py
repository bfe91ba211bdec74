"""What runs would take: computed from what was measured, and from the constants of the code."""
