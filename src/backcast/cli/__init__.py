"""The command line: arguments in, calls of the rooms above, text out.

    app.py       the commands, and what becomes of errors
    commands/    one file for each command
    studies.py   a study from a file's or a built-in name and what was set beside it
    options.py   what several commands are told in the same words
    screen.py    text for people: tables, numbers
    compiled.py  where compiled code is kept from one call to the next

To add a command: a file in ``commands/`` with a function ``command``, and a line in `app.COMMANDS`.
"""

from backcast.cli.app import main

__all__ = ["main"]
