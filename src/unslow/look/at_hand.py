"""What is at hand where a whole plan is spelled: the model, who starts the server, and what the program itself says."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from unslow.facts.model import Model

_OF_HUB = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


class Unit(NamedTuple):
    """A service of systemd, of the system or of a user."""

    name: str = ""
    of_user: bool = False

    @classmethod
    def named(cls, text: str) -> "Unit":
        """By the words that systemctl takes for it, as facts have them."""
        return cls(text.rpartition(" ")[2], of_user=text.startswith("--user "))

    @property
    def words(self) -> str:
        """Those words."""
        return f"--user {self.name}" if self.of_user else self.name


NO_UNIT = Unit()


class AtHand(NamedTuple):
    """Everything that is not in the runtime's own facts; empty where nobody looked."""

    model: Model = Model()
    unit: Unit = NO_UNIT
    options: Mapping[str, str] = {}
    """The flags of the program at hand by its own help, each with what is written there."""
    listed: frozenset[str] = frozenset()
    """Models that were seen: by the names that the runtime lists, or by their paths."""
    program: str = ""
    """The program to start where nothing runs yet, as the user named it."""
    anew: bool = False
    """Whether the changes are all that there is to say, so that a command is written anew where none is known."""

    @property
    def checkpoint(self) -> str:
        """The model for an engine that takes folders and names of a hub; empty of a name that only we have for it."""
        name = self.model.name.value_or("")
        return self.model.path.value_or("") or (name if _OF_HUB.fullmatch(name) else "")


NOTHING = AtHand()
