"""A machine whose clock stands: prices are then as old as they were that day."""

from unslow.look.system.live import LiveSystem


class MarketDay(LiveSystem):
    """This machine on a day when prices were looked at."""

    def now(self) -> str:
        """The day on which the newest shipped prices were a week old."""
        return "2026-11-16T12:00:00+00:00"
