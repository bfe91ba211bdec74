"""What crosses a boundary: the study, and codecs between bytes and Arrow columns. No Beam."""
