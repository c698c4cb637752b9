"""Measures what this machine really gives, keeps it, lists it, forgets it."""

from unslow.app.calibrate.embedded import calibrate_embedded
from unslow.app.calibrate.kept import KeptReport, forget, kept
from unslow.app.calibrate.running import calibrate_running
from unslow.app.progress import Progress
from unslow.commands.calibrate import CalibrateRequest
from unslow.facts.calibration import Calibration
from unslow.look.calibration import default_store
from unslow.look.system import System

__all__ = ["KeptReport", "calibrate", "forget", "kept"]


def calibrate(system: System, request: CalibrateRequest, progress: Progress) -> Calibration:
    """Measure the embedded engine, or the server that the request names, and keep the result."""
    calibration = (
        calibrate_running(request, progress) if request.target else calibrate_embedded(system, request, progress)
    )
    path = default_store().save(calibration)
    progress.say(f"kept in {path}")
    return calibration
