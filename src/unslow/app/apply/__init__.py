"""`unslow apply`: what a plan changes here, shown first, then made whole or not at all."""

from unslow.app.apply.perform import performed
from unslow.app.apply.prepare import ApplyRequest, Prepared, prepared

__all__ = ["ApplyRequest", "Prepared", "performed", "prepared"]
