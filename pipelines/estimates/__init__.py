"""Statistics to estimates: solve, roll up, compare, and write."""
