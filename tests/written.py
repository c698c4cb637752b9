"""What the writer of a runtime's commands gives, as tests compare it."""

from unslow.look.command_writer import NOTHING_AT_HAND, AtHand
from unslow.look.runtimes import Looker, writer_of


def one_change(looker: Looker, change, runtime, at_hand: AtHand = NOTHING_AT_HAND) -> list[str]:
    """One change as a diagnosis shows it: from the shortest words to the whole command."""
    commands = writer_of(looker).commands_for([change], runtime, at_hand)
    return [*commands.short, *commands.lines]
