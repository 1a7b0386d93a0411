"""Runs a command on a terminal of its own, and prints what the terminal showed.

    python3 on_terminal.py COMMAND...

The exit code is the command's. Only the standard library is used.
"""

import os
import pty
import sys


def main() -> int:
    status = pty.spawn(sys.argv[1:])
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
