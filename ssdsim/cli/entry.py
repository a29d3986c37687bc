"""Where ``ssdsim`` begins: Ctrl-C ends it in a line from here on, also while the rest is still being loaded.

Python's own start before this line, some hundredths of a second, is Python's.
"""

import _signal  # type: ignore[import-not-found]  # signal itself, without the names that it makes of its numbers
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_SOON_S = 0.01


def main() -> None:
    """As :func:`ssdsim.cli.main.main`, which hears interrupts itself once it is loaded."""
    heard = _signal.getsignal(_signal.SIGINT)
    if heard is _signal.default_int_handler:  # a shell's background has it ignored
        _signal.signal(_signal.SIGINT, _end)
    sys.unraisablehook = _unraisable
    from ssdsim.cli.main import main  # here: it loads for a while

    try:
        _signal.signal(_signal.SIGINT, heard)
        main()
    except KeyboardInterrupt:
        _end()


def _end(*_: object) -> None:
    """End at once: nothing is begun that could be kept."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def _unraisable(lost: "UnraisableHookArgs") -> None:
    """Send an interrupt again soon that came where Python drops errors, such as in the garbage collector."""
    if lost.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_interrupt_soon, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon(whom: int) -> None:
    time.sleep(_SOON_S)
    _signal.pthread_kill(whom, _signal.SIGINT)  # which ends a wait, too
