"""The one error that a user sees as a line and a hint; anything else is a bug."""


class UserError(Exception):
    """The user asked for something that can't be done; `hint` says what to try."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
