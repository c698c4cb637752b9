"""The versioned answers of `unslow apply` and `unslow undo`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

APPLY_SCHEMA, UNDO_SCHEMA = "unslow.apply/1", "unslow.undo/1"
Outcome = Literal["would_change", "changed", "declined", "printed"]
"""printed: nothing is changed automatically; the lines are for the user."""
How = Literal["systemd", "compose", "script", "ollama", "by_hand"]


class FileShown(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is changed or made, with the change as a unified diff; keys are not shown."""

    path: str
    is_new: bool = False
    diff: str = ""


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is derived from another, which stays as it is."""

    url: str
    name: str
    parent: str
    parameters: dict[str, int | float | str | bool]


class ApplyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What apply does, or would do."""

    schema: str = APPLY_SCHEMA
    unslow_version: str
    runtime: str
    model: str
    option: str  # The name of the plan's option
    how: How
    outcome: Outcome
    because: str = ""  # Why it is left to be done by hand
    files: tuple[FileShown, ...] = ()
    models: tuple[ModelShown, ...] = ()
    lines: tuple[str, ...] = ()  # To type, each with the label of its place, for what is not changed here
    then: tuple[str, ...] = ()  # To type afterwards, so that the server sees it
    restarted: bool = False
    left_out: tuple[str, ...] = ()  # Changes of the plan that the runtime can't have, each with the reason
    mended: tuple[str, ...] = ()  # What was stopped in the middle before, and what became of it
    change: str = ""  # The id to undo it with
    undo: str = ""  # The line that takes it back, to type
    journal: str = ""


class ChangeShown(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made."""

    id: str
    at: str
    what: str
    state: str
    files: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    reason: str = ""
    then: tuple[str, ...] = ()


class DamagedShown(msgspec.Struct, frozen=True, kw_only=True):
    """A change whose journal can't be read."""

    id: str
    because: str


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken back, or what there is to take back."""

    schema: str = UNDO_SCHEMA
    unslow_version: str
    outcome: Literal["listed", "would_undo", "undone", "declined", "nothing"]
    changes: tuple[ChangeShown, ...] = ()
    files: tuple[FileShown, ...] = ()  # What becomes of each file
    foreign: tuple[FileShown, ...] = ()  # What others changed since: the diff is theirs, against what the change left
    mended: tuple[str, ...] = ()
    damaged: tuple[DamagedShown, ...] = ()
    """Of a list: changes that can't be taken back, for what was written down of them can't be read."""
    journal: str = ""
