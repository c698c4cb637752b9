"""What is told of other settings is never more than they can do."""

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


def test_what_was_not_laid_out_is_told_as_the_most_that_it_can_be() -> None:
    said = told(1.0, Work(512, 0, 64))
    unlaid = [because for what, because in said.items() if "-ngl alone" in what or "micro-batch" in what]
    assert unlaid
    assert all("at most" in because or "does not fit" in because for because in unlaid)
    threads = next(because for what, because in said.items() if "threads" in what)
    assert "at most" not in threads  # the same memory, laid out already


def test_what_seems_quicker_is_laid_out_before_it_is_told() -> None:
    """A cache with the host seems quicker in an empty context, and is not taken for what it does in a full one."""
    said = told(0.8, Work(32, 0, 16))
    because = next(because for what, because in said.items() if "-nkvo" in what)
    assert "times as quick" in because
    assert "at most" not in because
    assert "tokens of depth" in because


def test_rows_on_each_gpu_are_priced_and_take_the_same_memory(wording) -> None:
    because = told(1.2, Work(512, 0, 64), gpus=2)["rows of every matrix on each GPU (-sm row)"]
    assert "times as long" in because
    wording(because)


def test_what_is_quicker_is_told_with_what_it_would_cost() -> None:
    """With a floor in a full context, much is quicker in an empty one."""
    goal = Goal(4096, Work(512, 0, 64), "context", least_tokens_per_s=50)
    asked = LlamaPlanQuestion((GIVEN,), planning.hardware(1.0), goal, planning.MARGIN_BYTES, 8)
    with one_judgement():
        points = Points(asked)
        chosen = choose(points)
        assert chosen.best
        said = [
            other.because for other in rejected_options(points, chosen.best, ()) if "times as quick" in other.because
        ]
    assert said
    assert all("but " in because for because in said)
