"""The one error that a user sees as a line and a hint; anything else is a bug."""


class UserError(Exception):
    """The user asked for something impossible; `hint` says what to try."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def hint_for_extra(extra: str) -> str:
    """How to get a part that is installed only on request; the program is on no package index yet."""
    return f"in a clone of the repository: pipx install --force '.[{extra}]', or pip install '.[{extra}]'"
