"""The command ``ldpbeam``, which knows its commands by name and imports none of them."""
