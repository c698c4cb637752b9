"""Phases of the last seconds only, in a sampler that runs for hours."""

import pytest

from unslow.facts.run import Span
from unslow.look.sampler import Sampler
from unslow.look.sampler.rows import SampledRows
from unslow.look.system.live import LiveSystem


def test_only_rows_since_a_moment_count_by_phase():
    book = SampledRows(("busy_cpus",), ())
    for second in range(100):
        book.add(float(second), [10.0 if second < 50 else 1.0 if second < 80 else 3.0])
    book.note(Span(phase="decode", start_s=0.0, end_s=79.5))
    book.note(Span(phase="queue", start_s=70.0, end_s=79.5))
    found = {phase.phase: phase for phase in book.phases_since(60.0)}
    assert {name: phase.samples for name, phase in found.items()} == {"queue": 10, "decode": 20, "idle": 20}
    assert found["decode"].host["busy_cpus"].mean == 1.0, "the tens before were let go"
    assert found["idle"].host["busy_cpus"].mean == 3.0
    assert found["decode"].seconds == pytest.approx(20)


def test_a_sampler_that_never_ran_has_no_samples():
    seen = Sampler(LiveSystem()).recent(60.0)
    assert (seen.samples, seen.phases) == (0, ())
