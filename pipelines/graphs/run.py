"""Running a pipeline to its end, with its errors in a sentence."""

from __future__ import annotations

import apache_beam as beam

from ldpbeam.errors import UserError, end_of, machine_problem
from ldpbeam.printing import progress_console


def run_pipeline(pipeline: beam.Pipeline, here: bool) -> None:
    """Run the pipeline to its end.

    Args:
        pipeline: the pipeline, with all its stages.
        here: whether the workers are in this process; then errors of our own code are raised as they are.

    Raises:
        UserError: if an engine elsewhere fails, its job server does not start, or a worker meets an error of
            the machine, such as a full disk.
    """
    try:
        with progress_console().status("reading reports"):
            pipeline.run().wait_until_finish()
    except Exception as error:  # each engine has errors of its own
        if _interrupted(error):
            raise KeyboardInterrupt from None
        problem = machine_problem(error)
        if problem is not None:
            raise UserError(problem) from None
        if here:
            raise
        raise UserError(f"the engine failed: {end_of(error)}") from None


def _interrupted(error: BaseException | None) -> bool:
    """Whether a step was interrupted: the engine in this process then raises an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
