"""Mixture reduction: EM over fewer components, merged step by step."""
