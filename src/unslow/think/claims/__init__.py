"""Whether a claim that somebody makes of a model on a device is possible: the text read, and held to arithmetic."""

from unslow.think.claims.check import LONGEST_TEXT, check_claim, check_text
from unslow.think.claims.report import SCHEMA, CheckReport, Judged, worst

__all__ = ["LONGEST_TEXT", "SCHEMA", "CheckReport", "Judged", "check_claim", "check_text", "worst"]
