"""A wing that nobody imports: the commands that read what runs wrote."""
