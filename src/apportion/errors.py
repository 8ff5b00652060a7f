"""The errors of the package, each naming what was wrong and what to do about it.

No message here or anywhere carries a value of private data: places (row, column, parameter) only.
Names of files may be in messages, so nothing in these commands the terminal that shows them.
"""


def printable(value: object, *, lines: bool = False) -> str:
    """Text for a terminal: control characters, and marks that change the direction of letters, replaced.

    So are ends of lines, which might begin a line of ours, unless the text is one of several ``lines``.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or (lines and letter == "\n")
        else " "
        if letter == "\t"
        or (letter >= "\xa0" and letter.isspace() and letter not in "\u2028\u2029")
        else "\ufffd"
        for letter in text
    )


class ApportionError(Exception):
    """Base of every error that this package raises on purpose. Its message is printable."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))


class ParameterError(ApportionError, ValueError):
    """A parameter is out of its range or contradicts another one."""


class DataError(ApportionError, ValueError):
    """The data cannot be used as it is; nothing was trained and nothing was released."""


class NotFittedError(ApportionError, ValueError, AttributeError):
    """A model was asked for something that it only has after ``fit``."""


class BudgetExceededError(ApportionError):
    """Refused: it would pass the privacy target, or the cap of a budget. Nothing was released."""


class BudgetFileError(ApportionError):
    """A budget could not be read or written as it must be. Nothing was released."""


class ReleaseError(ApportionError):
    """A release was used in a way that would break its guarantee. Nothing was released."""


class CheckpointError(ApportionError):
    """A training cannot go on from its checkpoint as asked. No noise was drawn."""
