"""The commands, and what becomes of errors."""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

import backcast

COMMANDS = {
    "demo": "See in a minute what filtering and smoothing do.",
    "run": "Run an experiment, or go on with it.",
    "sweep": "Run many variations of an experiment, here or on a cluster.",
    "tune": "Choose settings on validation data.",
    "smooth": "Write the smoothed models of a run to files; needs no data.",
    "inspect": "Show what a run believes: eigenvalues, capacity, memory.",
    "report": "Write a page with figures and tables about runs.",
    "paper": "Make the tables and figures of the paper, with our numbers beside its own.",
    "data": "Show which data sets are here, or download one.",
}
"""What each command does; each is the function ``command`` of the file of its name."""

FAILED, MISTAKEN, INTERRUPTED = 1, 2, 130
"""Exit codes: the work failed; the user is to correct something; Ctrl-C, as shells have it."""


def app() -> App:
    """All commands, none of them imported yet."""
    made = App(
        name="backcast",
        help="Train networks on sequences of tasks by Bayesian filtering, and smooth afterwards.",
        version=f"backcast {backcast.__version__}",
        suppress_keyboard_interrupt=False,  # `main` says what it means
    )
    for order, (name, words) in enumerate(COMMANDS.items()):
        place = f"backcast.cli.commands.{name}:command"
        made.command(place, name=name, help=words, sort_key=order)
    return made


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the command line says.

    Args:
        tokens: its words, if not those this process was started with.

    Returns:
        The exit code.
    """
    tokens = sys.argv[1:] if tokens is None else list(tokens)
    try:
        code = _called(tokens)
    except CycloptsError as error:
        return _tell(_usage(error, tokens), MISTAKEN)
    except KeyboardInterrupt:
        return _tell(
            "Stopped. Nothing that was completed is lost: the same command goes on from there.",
            INTERRUPTED,
        )
    except BrokenPipeError:
        # Whoever read this has read enough; Python would complain once more when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        code = _fault(error)
        if code is None:
            raise
        return _tell(str(error), code)
    return code if isinstance(code, int) else 0


def _called(tokens: Sequence[str]) -> Any:
    """Call the command; what it warns of is told in words, without the line of code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _tell(f"warning: {message}", 0)
        return app()(tokens, exit_on_error=False, print_error=False, result_action="return_value")


def _fault(error: Exception) -> int | None:
    """The exit code of an error that is told to the user; None for one that is a bug of ours."""
    # Imported only now: most calls of the command line meet no error.
    from backcast.data import DataError
    from backcast.experiments import BusyError, SpecError, StorageError

    kinds: list[tuple[type[Exception], int]] = [
        (SpecError, MISTAKEN),
        (DataError, MISTAKEN),
        (BusyError, FAILED),
        (StorageError, FAILED),
        (OSError, FAILED),
    ]
    # What was never imported cannot have been raised, and importing it takes seconds.
    if "backcast.learning" in sys.modules:
        from backcast.learning import LoadError

        kinds.append((LoadError, MISTAKEN))
    return next((code for kind, code in kinds if isinstance(error, kind)), None)


def _usage(error: CycloptsError, tokens: Sequence[str]) -> str:
    """What was wrong with the command line, and where to read what is right."""
    said = str(error).strip()
    if isinstance(error, UnusedCliTokensError):
        said = f"There is no use for {', '.join(error.unused_tokens or ())}."
    if isinstance(error, UnknownOptionError) and "." in (error.token.keyword or ""):
        field = (error.token.keyword or "").lstrip("-")
        said = f"{said} Fields of a spec are given by --set, as in --set {field}=..."
    command = next((token for token in tokens[:1] if token in COMMANDS), None)
    return f"{said}\nSee: backcast {f'{command} ' if command else ''}--help"


def _tell(words: str, code: int) -> int:
    print(f"backcast: {words}", file=sys.stderr)
    return code
