from unslow.think.memo import LastingJudgement, remembered


def test_what_was_reckoned_is_known_the_next_time() -> None:
    lasting, times = LastingJudgement(10), list[int]()
    for _ in range(3):
        with lasting.resumed():
            assert remembered(times, "size", lambda: times.append(1) or len(times)) == 1
    assert len(times) == 1
    assert remembered(times, "size", lambda: 7) == 7  # outside, nothing is remembered


def test_it_forgets_when_there_is_too_much() -> None:
    lasting, subject = LastingJudgement(2), object()
    for number in range(3):
        with lasting.resumed():
            remembered(subject, number, lambda: "old")
    with lasting.resumed():
        assert remembered(subject, 0, lambda: "new") == "new"
