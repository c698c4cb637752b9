"""No line keeps a pattern busy for longer than its length allows: each is tried with texts made from its own parts."""

import pytest
from pumped_patterns import all_patterns, too_slow

LINES = ("unslow.look.logs.", "unslow.look.paste.", "unslow.facts.masking")
"""Who is shown whole lines of a log; what reads prose is shown a tenth of that, and no more than 400,000 letters."""
pytestmark = pytest.mark.no_cover


def test_what_is_quadratic_is_found():
    assert "times" in too_slow("unslow.look.logs.commands:36", r"x*=", 0)
    assert "times" in too_slow("unslow.look.logs.commands:36", r"(?:a+)+b", 0)
    assert not too_slow("unslow.look.logs.commands:36", r"\bsetx\s{1,8}(\w{1,40})", 0)


@pytest.mark.real  # minutes on two slow cores
def test_every_pattern_for_lines_is_linear_in_the_text():
    patterns = all_patterns()
    assert len(patterns) > 1000
    put_to_lines = {key: where for key, where in patterns.items() if where.startswith(LINES)}
    slow = [said for (source, flags), where in put_to_lines.items() if (said := too_slow(where, source, flags))]
    assert not slow, "\n".join(slow)
