"""One server, to be held against another at another time: the host's own speed is measured beside its rounds."""

from unslow.app.bench.bencher import Bencher
from unslow.app.progress import Progress
from unslow.app.verify.answering import compare_answers, extent_of
from unslow.app.verify.asking import asked, prompt_of, warm_up
from unslow.app.verify.course import Clock, Course
from unslow.app.verify.party import Party
from unslow.facts.run import Run
from unslow.facts.values import Known
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.system import System
from unslow.think.bench.conditions import conditions_of
from unslow.think.verify.rounds import is_steady

HOST_EVERY = 6
"""Rounds between two looks at the host's own speed, each of which takes half a second."""


def alone(party: Party, course: Course, system: System, progress: Progress) -> str:
    """Rounds until they are steady or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with party.opened(progress) as bencher:
        progress.step(f"warming up: {party.what}", 0.0)
        why = warm_up(bencher, party, course.work) or _rounds(bencher, party, course, clock)
        _note_machine(party, bencher, system)
        if course.answers and not why:
            extent = course.extent or extent_of(party, course.for_answers_s)
            compare_answers(bencher, party, extent, twice=course.extent is None)
        return why


def _rounds(bencher: Bencher, party: Party, course: Course, clock: Clock) -> str:
    clock.begin_rounds()
    number = 0
    while clock.has_time(number) and not is_steady(party.samples):
        if number % HOST_EVERY == 0:
            _note_host(party, bencher.system)
        number += 1
        clock.say(f"round {number}")
        if why := asked(bencher, party, course.work, prompt_of(bencher, course.work), number):
            return why
    return ""


def _note_host(party: Party, system: System) -> None:
    """How fast the host reads its memory; nothing where that can't be measured, or the server is elsewhere."""
    if party.is_here and isinstance(speed := read_ram_bandwidth(system).read_bytes_per_s, Known):
        party.host.append(speed.value)


def _note_machine(party: Party, bencher: Bencher, system: System) -> None:
    _note_host(party, system)
    telemetry = bencher.sampler.telemetry() if bencher.sampler else None
    party.conditions = conditions_of(telemetry, Run(), bencher.case.machine) if telemetry else {}
