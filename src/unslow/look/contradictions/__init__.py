"""Where sources can't all be right: what was asked for, reported, decided, allocated, and seen on the device.

Pure. Whoever has several sources hands them over in the order in which they came about, each with its name; whoever has
one alone, with a machine, learns what the device says against it.
"""

from collections.abc import Sequence

from unslow.facts.machine import Machine
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction
from unslow.look.contradictions.devices import device_contradictions
from unslow.look.contradictions.placement import placement_contradictions
from unslow.look.contradictions.settings import setting_contradictions


def contradictions(sources: Sequence[tuple[str, Runtime]], model: Model, machine: Machine) -> tuple[Contradiction, ...]:
    """Every contradiction between the sources, and between them and the machine."""
    runtimes = [runtime for _, runtime in sources]
    return (
        *setting_contradictions(sources),
        *placement_contradictions(runtimes, model),
        *device_contradictions(runtimes, machine),
    )


def added(before: Sequence[Contradiction], more: Sequence[Contradiction]) -> tuple[Contradiction, ...]:
    """Both, without saying the same twice."""
    said = {contradiction.about for contradiction in before}
    return (*before, *(contradiction for contradiction in more if contradiction.about not in said))


__all__ = ["added", "contradictions"]
