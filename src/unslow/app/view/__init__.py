"""The view of a diagnosis: the report and every number that the page, the file and the live screen draw."""

from unslow.app.view.build import Seen, view_of, view_target
from unslow.app.view.masking import masked_view

__all__ = ["Seen", "masked_view", "view_of", "view_target"]
