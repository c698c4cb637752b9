"""The Pareto front: nothing on it is dominated, nothing off it is missed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.think.plan.pareto_front import MOST_SHOWN, Worth, bin_worth, goal_rank, pareto_front, thin_front
from unslow.think.plan.report import GoalShown

AMOUNTS = st.floats(0.1, 100.0)
WORTHS = st.builds(
    Worth, AMOUNTS, AMOUNTS, st.sampled_from([4.0, 8.0, 16.0]), st.sampled_from([8.0, 16.0]), AMOUNTS, AMOUNTS,
    st.integers(-5, 0).map(float),
)  # fmt: skip


def goal(aim: str) -> GoalShown:
    return GoalShown(aim=aim, context=10, prompt_tokens=1, kept_tokens=0, answer_tokens=1, users=1)  # type: ignore[arg-type]


def same(worth: Worth) -> Worth:
    return worth


def no_effort(worth: Worth) -> tuple[float, ...]:
    return (-worth.ease,)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORTHS, min_size=1, max_size=30))
def test_front_dominates_all_points_and_not_itself(points: list[Worth]) -> None:
    kept = [bin_worth(p) for p in pareto_front(points, same, no_effort)]
    for point in map(bin_worth, points):
        assert any(all(a >= b for a, b in zip(other, point, strict=True)) for other in kept)
    for one in kept:
        assert not any(o != one and all(a >= b for a, b in zip(o, one, strict=True)) for o in kept)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORTHS, min_size=1, max_size=30), st.sampled_from(["speed", "context", "quality"]))
def test_best_point_is_on_the_front(points: list[Worth], aim: str) -> None:
    best = max(goal_rank(goal(aim), p) for p in points)
    assert max(goal_rank(goal(aim), p) for p in pareto_front(points, same, no_effort)) == best


@settings(max_examples=40, deadline=None)
@given(st.lists(WORTHS, min_size=1, max_size=30))
def test_thinned_front_keeps_the_chosen_and_the_fastest(points: list[Worth]) -> None:
    kept = pareto_front(points, same, no_effort)
    chosen = kept[-1]
    few = thin_front(kept, same, chosen)
    assert chosen in few
    assert len(few) <= MOST_SHOWN
    assert max(bin_worth(p).speed for p in few) == max(bin_worth(p).speed for p in kept)


def test_empty_input_gives_an_empty_front() -> None:
    assert thin_front([], same, None) == []
    assert pareto_front([], same, no_effort) == []


def test_difference_below_one_percent_is_ignored() -> None:
    easy = Worth(1.0, 1.0, 16.0, 16.0, 1.0, 1.0, 0.0)
    assert pareto_front([easy._replace(speed=1.004, ease=-3.0), easy], same, no_effort) == [easy]
