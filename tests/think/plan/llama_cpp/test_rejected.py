"""Rejected settings are never described as faster than they can be."""

from tests.think.plan.llama_cpp import planning

from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.choose import choose
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.points import Points
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion, Variant
from unslow.think.plan.llama_cpp.rejected import rejected_options

GIVEN = Variant("Q4_K_M", Pieces(planning.blueprint("smollm2-1.7b")), 1_700_000_000, given=True, at_hand=True)


def told(gib: float, work: Work, gpus: int = 1) -> dict[str, str]:
    asked = LlamaPlanQuestion((GIVEN,), planning.hardware(gib, gpus), Goal(4096, work), planning.MARGIN_BYTES, 8)
    with one_judgement():
        points = Points(asked)
        chosen = choose(points)
        assert chosen.best
        return {other.what: other.because for other in rejected_options(points, chosen.best, ())}


def test_unlaid_options_are_described_as_at_most() -> None:
    said = told(1.0, Work(512, 0, 64))
    unlaid = [because for what, because in said.items() if "-ngl alone" in what or "micro-batch" in what]
    assert unlaid
    assert all("at most" in because or "does not fit" in because for because in unlaid)
    threads = next(because for what, because in said.items() if "threads" in what)
    assert "at most" not in threads  # the same memory, laid out already


def test_seemingly_faster_option_is_laid_out_before_it_is_rejected() -> None:
    """A cache on the host seems faster in an empty context, and is rejected for its speed at full context."""
    said = told(0.8, Work(32, 0, 16))
    because = next(because for what, because in said.items() if "-nkvo" in what)
    assert "times as fast" in because
    assert "at most" not in because
    assert "tokens of depth" in because


def test_row_split_is_priced(wording) -> None:
    because = told(1.2, Work(512, 0, 64), gpus=2)["row split across GPUs (-sm row)"]
    assert "times as long" in because
    wording(because)


def test_faster_rejected_option_says_what_it_would_cost() -> None:
    """With a floor at full context, many options are faster in an empty one."""
    goal = Goal(4096, Work(512, 0, 64), "context", least_tokens_per_s=50)
    asked = LlamaPlanQuestion((GIVEN,), planning.hardware(1.0), goal, planning.MARGIN_BYTES, 8)
    with one_judgement():
        points = Points(asked)
        chosen = choose(points)
        assert chosen.best
        said = [
            other.because for other in rejected_options(points, chosen.best, ()) if "times as fast" in other.because
        ]
    assert said
    assert all("but " in because for because in said)
