"""The command ``ldpbeam``, which knows its commands by name: nothing here imports one."""
