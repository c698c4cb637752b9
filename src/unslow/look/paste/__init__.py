"""Any text that somebody has: logs, tables, commands and prose in any mixture, as facts."""

from unslow.look.paste.read import Pasted, read_paste

__all__ = ["Pasted", "read_paste"]
