"""A report kind declares its formats and is looked up by the type that it shows."""

import msgspec
import pytest

from unslow.commands._formats import kind_of
from unslow.facts.errors import UserError
from unslow.show.console import ReportKind


class Tale(msgspec.Struct):
    text: str


TALE = ReportKind(Tale, lambda tale, width: [f"{width}", tale.text], markdown=lambda tale: f"# {tale.text}")


def test_each_format_uses_its_own_renderer():
    tale = Tale("once")
    assert TALE(tale, "terminal", width=80, color=False) == "80\nonce"
    assert TALE(tale, "markdown", width=80, color=False) == "# once"
    assert TALE(tale, "json", width=80, color=False) == '{\n  "text": "once"\n}'


def test_escape_sequences_are_removed_in_every_format():
    assert "\x1b" not in TALE(Tale("\x1b[31m"), "markdown", width=80, color=False)


def test_unsupported_format_is_refused_with_the_supported_ones(wording):
    with pytest.raises(UserError) as caught:
        TALE.check_format("openmetrics")
    wording(str(caught.value))
    wording(caught.value.hint)


def test_report_kind_is_looked_up_by_type():
    assert kind_of(Tale("once")) is TALE
    fleet = kind_of(type("FleetReport", (), {})())
    assert fleet is not None
    assert fleet.formats == ("terminal", "json", "markdown", "openmetrics")
    assert kind_of(3) is None
