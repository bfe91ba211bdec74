"""``python -m ldpbeam`` runs the command ``ldpbeam`` with this Python interpreter."""

import sys

from ldpbeam.command_line.main import main

if __name__ == "__main__":
    sys.exit(main())
