"""``python -m ldpbeam``: the command ``ldpbeam``, with the Python that is named."""

import sys

from ldpbeam.pipelines.main import main

if __name__ == "__main__":
    sys.exit(main())
