"""Settings and speeds of an option as the report has them, for every runtime."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from unslow.facts.knob import Setting
from unslow.think.physics.terms import Interval
from unslow.think.plan.report import ChangeShown, SpeedShown
from unslow.think.speed.question import shown_rate


def shown_speed(decode: Interval, prefill: Interval, request_s: Interval, together: float | None) -> SpeedShown:
    """What one conversation gets, and all of them together in tokens per second; None where there is one."""
    return SpeedShown(
        decode_tokens_per_s=shown_rate(decode),
        prefill_tokens_per_s=shown_rate(prefill),
        request_s=shown_rate(request_s),
        together_tokens_per_s=together,
    )


def shown_settings(settings: Iterable[tuple[str, Setting]], was: Mapping[str, Setting]) -> tuple[ChangeShown, ...]:
    """Every setting with what it is now."""
    return tuple(ChangeShown(knob=knob, value=value, was=was.get(knob)) for knob, value in settings)


def changes_of(settings: Iterable[ChangeShown], why: Callable[[str], str]) -> tuple[ChangeShown, ...]:
    """Those that are other than now, each with the reason."""
    return tuple(msgspec.structs.replace(s, why=why(s.knob)) for s in settings if s.value != s.was)
