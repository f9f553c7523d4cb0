"""`python -m proctor`, and the program `proctor`: signals first, then the command line."""

import gc
import os
import sys
from _signal import SIGINT, SIGTERM  # `signal` itself takes 1 ms to import

if sys.platform != "win32":
    from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask


_MAX_NEW_OBJECTS = 50_000
"""How many objects there may be before the garbage collector looks for cycles."""


def main() -> None:
    """Run the command line; a signal ends it with one sentence from here on."""
    gc.set_threshold(_MAX_NEW_OBJECTS)  # it would run seventy times during imports, which leave no garbage
    if sys.platform != "win32":
        # A signal waits for the few files that are read until there is a handler.
        mask = pthread_sigmask(SIG_BLOCK, (SIGINT, SIGTERM))
    from proctor.cli.interrupts import exit_at_signals

    exit_at_signals()
    if sys.platform != "win32":
        pthread_sigmask(SIG_SETMASK, mask)
    if (instruction := os.environ.get("_PROCTOR_COMPLETE")) is not None:  # the script of a shell asks
        from proctor.cli.completion.shells import complete

        sys.exit(complete(instruction))
    from proctor.cli.main import main as run_command_line

    try:
        run_command_line()
    finally:
        gc.freeze()  # the collections at the end of the process would look at all modules twice


if __name__ == "__main__":
    main()
