"""One BLAS thread in every process that computes estimates.

BLAS splits a product among its threads, and the last bits of the result depend on their number, which is that
of the machine's cores. With one thread an estimate has the same bits whatever the number of cores, and
processes that compute estimates side by side do not compete for them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import scipy.linalg  # noqa: F401 - loads SciPy's own BLAS, so that the controller finds it
from threadpoolctl import ThreadpoolController


def limit_blas() -> None:
    """Limit BLAS to one thread in this process, from now on.

    The limit is not lifted after an estimate, because all threads of Python share it, and others may still be
    computing.
    """
    _controller().limit(limits=1, user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread during the block, for a program that computes more than estimates."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> Any:
    # Finding the libraries takes milliseconds.
    return ThreadpoolController()
