import pytest

from unslow.look.kernel.processors import HIGHEST_NUMBER, parse_cpu_list


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8,10-11\n", {0, 1, 2, 3, 8, 10, 11}),
        ("0", {0}),
        ("0,1", {0, 1}),
        ("", set()),
        ("\n", set()),
        ("(none)", set()),
        ("3-1", set()),
        ("0-1,x,5-,-7, 9 ", {0, 1, 9}),
    ],
)
def test_kernel_cpu_lists_are_parsed(text, numbers):
    assert parse_cpu_list(text) == numbers


def test_a_huge_cpu_range_is_bounded():
    assert len(parse_cpu_list("0-999999999,0-999999999")) == HIGHEST_NUMBER + 1
