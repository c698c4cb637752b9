"""The one door to the world: files, commands, HTTP, libraries and the clock, live or recorded."""

from unslow.look.system.door import Answer, Finished, Live, LookError, System, unknown

__all__ = ["Answer", "Finished", "Live", "LookError", "System", "unknown"]
