"""How a running stream is watched: its metrics, its state, and the port that serves both."""
