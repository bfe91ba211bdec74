"""The options of the commands: one function per command with options of its own.

A module here imports nothing that computes or runs: no numpy, scipy, pyarrow, pydantic or Beam. So
``ldpbeam COMMAND --help`` and shell completion answer at once. The modules in
:mod:`ldpbeam.pipelines.commands` do the work, and :mod:`ldpbeam.command_line.catalogue` knows both.
"""
