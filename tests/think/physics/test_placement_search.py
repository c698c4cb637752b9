from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.placement import largest_fitting


@given(st.integers(-50, 50), st.integers(0, 3000), st.integers(-200, 3500), st.integers(1, 9))
def test_largest_fitting_is_the_last_that_fits(low: int, width: int, limit: int, slope: int) -> None:
    high = low + width
    found = largest_fitting(low, high, lambda n: (limit - n) * slope)
    fitting = [n for n in range(low, high + 1) if n <= limit]
    assert found == (fitting[-1] if fitting else None)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=400), st.integers(0, 10**11))
def test_search_works_on_irregular_steps_with_few_calls(steps: list[int], room: int) -> None:
    needs = [0]
    for step in steps:
        needs.append(needs[-1] + step)
    asked = []

    def left(n: int) -> float:
        asked.append(n)
        return room - needs[n]

    found = largest_fitting(0, len(steps), left)
    assert found == max(n for n, need in enumerate(needs) if need <= room)
    assert len(asked) <= 2 + 2 * 9


def test_nothing_fitting_gives_none() -> None:
    assert largest_fitting(1, 10, lambda _: -1) is None
