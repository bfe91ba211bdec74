"""The wiring of transforms into a batch or a stream, and the engines that run it."""
