"""Simulated clients: people, their perturbed reports, and files of them."""
