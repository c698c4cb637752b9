"""Every benchmark that was run here, kept in one file of the user's data folder."""

from unslow.look.history.entries import Entry, Filters, State
from unslow.look.history.store import History, default_history

__all__ = ["Entry", "Filters", "History", "State", "default_history"]
