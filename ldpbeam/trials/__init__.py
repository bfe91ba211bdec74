"""People who are drawn, what they send, and how far estimates are from them."""
