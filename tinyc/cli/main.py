# SPDX-License-Identifier: Apache-2.0
"""The first and the last moments of the `tinyc` command: signals, pipes that are gone, and the exit code.

Nothing large is imported before the signals are in order: a second passes until everything is there, and Ctrl-C ends
that like anything else.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TextIO

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
COULD_NOT_RUN, BUG = 2, 3

_signals: list[int] = []  # that came: a library may turn what they raise into another exception


def main() -> None:
    """Exit codes: 0 done, 1 the answer is no, 2 could not run, 3 internal error, 130 Ctrl-C, 143 terminated."""
    _signals.clear()
    sys.stdout, sys.stderr = _stream(sys.stdout), _stream(sys.stderr)
    signal.signal(signal.SIGTERM, _leave)
    before = signal.getsignal(signal.SIGINT)
    caught = before is signal.default_int_handler  # a shell has it ignored for what runs in the background
    if caught:
        signal.signal(signal.SIGINT, _leave)
    try:
        from tinyc.cli.app import import_command, run_command  # noqa: PLC0415  nothing before the signals

        gc.disable()  # all that is imported stays
        import_command(sys.argv[1:])  # the large imports: there is nothing to clean up yet
        gc.freeze()
        gc.enable()
        gc.set_threshold(1_000_000)  # what is made between two looks for cycles, which next to nothing here is

        sys.unraisablehook = _again
        signal.signal(signal.SIGTERM, _raise)
        if caught:
            signal.signal(signal.SIGINT, _raise)
        code = _code_of(run_command)
    finally:
        sys.unraisablehook = sys.__unraisablehook__
        if caught:
            signal.signal(signal.SIGINT, before)
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the code stands: nothing is left to end
    sys.exit(_flushed(code))


def _leave(number: int, frame: FrameType | None) -> None:
    """The handler while there is nothing to clean up."""
    os.write(2, _word(number).encode())
    os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> None:
    """The handler while a command runs: every `finally` on the way removes what is half-written."""
    _signals.append(number)
    raise KeyboardInterrupt


def _again(lost: sys.UnraisableHookArgs) -> None:
    """What a handler raises in a destructor is lost; the signal is sent once more."""
    if issubclass(lost.exc_type, KeyboardInterrupt) and _signals:
        os.kill(os.getpid(), _signals[-1])
    else:
        sys.__unraisablehook__(lost)


def _word(number: int) -> str:
    return "interrupted\n" if number == signal.SIGINT else "terminated\n"


def _code_of(command: Callable[[], int]) -> int:
    """What the command returns, or the code of what it raises, which is said."""
    try:
        code = command()
        if code != INTERRUPTED:
            return code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # who reads the output has seen enough
        return 0
    except Exception as error:  # the last line of defence: users never see a bare traceback
        if not _signals:
            return _report(error)
        code = INTERRUPTED
    number = _signals[0] if _signals else signal.SIGINT
    _say(_word(number))
    return 128 + number


def _report(error: Exception) -> int:
    """Says what went wrong where no command has; the exit code."""
    from tinyc.base.escape import visible  # noqa: PLC0415

    if os.environ.get("TINYC_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, OSError):
        place = f"\n  --> {visible(error.filename)}" if error.filename is not None else ""
        hint = "make room, or give another place, and start again"
        _say(f"error: {visible(error.strerror or error)}{place}\n  hint: {hint}\n")
        return COULD_NOT_RUN
    if isinstance(error, MemoryError):
        _say("error: there is not enough memory\n  hint: give a smaller model, or fewer samples\n")
        return COULD_NOT_RUN
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    _say(
        f"internal error: {type(error).__name__}: {visible(error)} ({place})\n"
        "  hint: this is a bug of tinyc; TINYC_DEBUG=1 shows the traceback to report\n"
    )
    return BUG


def _stream(stream: TextIO | None) -> TextIO:
    """A stream that can be written to, whatever it is connected with and whatever letters it has."""
    if stream is None:  # closed, as by `>&-`
        return open(os.devnull, "w", encoding="utf-8")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody listens
        _drop(2)


def _flushed(code: int) -> int:
    """The exit code, when all that was printed is written; what cannot be is dropped, and Python says nothing of it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(1)
    except (OSError, ValueError) as error:
        _drop(1)
        _say(f"error: the output cannot be written: {getattr(error, 'strerror', None) or error}\n")
        return code or COULD_NOT_RUN
    return code


def _drop(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


if __name__ == "__main__":
    main()
