from unslow.think.memo import LastingJudgement, remember_once


def test_computed_values_are_remembered_across_judgements() -> None:
    lasting, times = LastingJudgement(10), list[int]()
    for _ in range(3):
        with lasting.resume():
            assert remember_once(times, "size", lambda: times.append(1) or len(times)) == 1
    assert len(times) == 1
    assert remember_once(times, "size", lambda: 7) == 7  # outside, nothing is remembered


def test_memory_is_cleared_beyond_its_limit() -> None:
    lasting, subject = LastingJudgement(2), object()
    for number in range(3):
        with lasting.resume():
            remember_once(subject, number, lambda: "old")
    with lasting.resume():
        assert remember_once(subject, 0, lambda: "new") == "new"
