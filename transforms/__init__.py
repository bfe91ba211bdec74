"""Beam transforms, in the order in which data passes them.

``sources`` read, ``reports`` check, ``windows`` cut and fold with the help of ``joining``, ``outputs`` write.
docs/architecture.md follows one report through them.
"""
