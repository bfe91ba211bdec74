"""The page of a run: one HTML file with its charts."""
