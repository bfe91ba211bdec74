"""Running a pipeline to its end, with its progress on a terminal and its errors in a sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import apache_beam as beam
from rich.console import Console

from ldpbeam.errors import UserError, end_of, machine_problem
from ldpbeam.pipelines.graphs.batch import BatchJob
from ldpbeam.pipelines.graphs.batch_stages import build
from ldpbeam.runners.engines import Engine
from ldpbeam.transforms.reports import emitted


def assemble(job: BatchJob, engine: Engine, beam_arguments: Sequence[str]) -> beam.Pipeline:
    """Build the pipeline of a run on an engine, ready to run.

    Raises:
        UserError: if Beam refuses an option.
    """
    pipeline = engine.pipeline(beam_arguments)
    build(pipeline, job)
    return pipeline


def run_pipeline(pipeline: beam.Pipeline, console: Console, here: bool) -> None:
    """Run the pipeline to its end.

    Args:
        pipeline: the pipeline that :func:`assemble` built.
        console: where progress is shown.
        here: whether the workers are in this process; then errors of our own code are raised as they are.

    Raises:
        UserError: if an engine elsewhere fails, its job server does not start, or a worker meets an error of
            the machine, such as a full disk.
    """
    try:
        with _reading_progress(console):
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


@contextmanager
def _reading_progress(console: Console) -> Iterator[None]:
    """Show how many reports workers in this process have read so far, if the console is a terminal."""
    if not console.is_terminal:
        yield
        return
    before, done = emitted.read_here, threading.Event()
    with console.status("reading reports") as status:

        def show() -> None:
            while not done.wait(0.5):
                status.update(f"{emitted.read_here - before:,} reports read")

        thread = threading.Thread(target=show, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
