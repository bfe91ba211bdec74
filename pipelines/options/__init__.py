"""The options of the commands: one function per command with options of its own.

A module here imports nothing that computes or runs: no numpy, scipy, pyarrow, pydantic or Beam. So that
``ldpbeam COMMAND --help`` and completion in a shell answer at once. The modules in
:mod:`ldpbeam.pipelines.commands` do the work, and :mod:`ldpbeam.command_line.catalogue` knows both.
"""
