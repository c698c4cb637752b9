"""Windows by its own objects: counters that other programs print are spelled in the language of the system."""

import sys

from unslow.look.system import Finished, LookError, System

_TIMEOUT_S = 20.0  # PowerShell starts in seconds where a virus scanner reads along


def command(objects: str) -> tuple[str, ...]:
    """The command that prints these objects as JSON; it only reads."""
    return ("powershell", "-NoProfile", "-NonInteractive", "-Command", f"{objects}|ConvertTo-Json -Depth 3 -Compress")


def read_objects(system: System, objects: str) -> Finished | None:
    """What Windows prints of them; None on another system, LookError where it does not answer."""
    try:
        if system.ask("sys.platform", lambda: sys.platform) != "win32":
            return None
    except LookError:
        return None
    return system.run(command(objects), timeout_s=_TIMEOUT_S)
