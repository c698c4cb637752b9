"""The one seam between facts and physics: what may be asked about a case, and a cure applied to it."""
