"""Clients that remember their noise: released constants and the exact ones, and a day of hours."""
