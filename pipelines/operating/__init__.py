"""How a running stream is watched: its state, the metrics made of it, and the port that serves both."""
