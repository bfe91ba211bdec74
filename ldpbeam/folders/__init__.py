"""The output folder of a run: the names in it, its files, and what is read from them."""
