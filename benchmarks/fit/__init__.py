"""What the tests of fit see, and how often they are wrong."""
