"""One subject measured alone."""

from unslow.commands._formats import Looking
from unslow.commands._output import Progress
from unslow.commands.diagnose.request import USUAL, Limits
from unslow.commands.diagnose.visit import Measuring
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.system import System


def measured_subject(
    system: System, subject: Subject, request: Looking, progress: Progress, limits: Limits = USUAL
) -> Subject:
    """The subject, on a machine of which nothing is known."""
    seen = Snapshot(unslow_version="test")
    return Measuring(system, request, progress, limits).measure(seen, [subject]).subjects[0]
