import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.gguf_server_flags import FLAGS
from unslow.look.runtimes.llama_cpp.flags import SINCE, VALUES_SINCE, Options


def of_build(number: int) -> Options:
    return Options(Runtime(version=reported_fact(f"b{number}-abc", "x")), {})


@pytest.mark.parametrize("flag", SINCE)
def test_a_flag_exists_since_its_build(flag):
    assert of_build(SINCE[flag]).has(flag)
    assert not of_build(SINCE[flag] - 1).has(flag)
    assert f"b{SINCE[flag]}" in of_build(SINCE[flag] - 1).without(flag)


@pytest.mark.parametrize(("flag", "value"), VALUES_SINCE)
def test_a_flag_value_exists_since_its_build(flag, value):
    assert of_build(VALUES_SINCE[flag, value]).takes(flag, value)
    assert not of_build(VALUES_SINCE[flag, value] - 1).takes(flag, value)


def test_versioned_flags_are_known_to_the_reader():
    known = {word for flag in FLAGS.values() for word in flag.spellings + flag.opposites}
    assert {flag for flag in SINCE if flag not in ("--reasoning-budget", "--sleep-idle-seconds")} <= known


def test_a_build_without_a_number_is_assumed_to_be_new():
    for version in ("b0-unknown", "0.5.0-dev", ""):
        assert Options(Runtime(version=reported_fact(version, "x")), {}).has("-lm")


def test_help_output_wins_over_the_build_number(wording):
    told = {
        "-sm": "-sm,   --split-mode {none,layer,row}",
        "-lm": "- mmap+mlock: both",
        "-fa": "-fa, --flash-attn    turn on",
    }
    options = Options(Runtime(version=reported_fact("b10500", "x")), told)
    assert not options.has("-ot")
    assert options.takes("-sm", "row")
    assert not options.takes("-sm", "tensor")
    assert not options.takes("-lm", "mmap")
    assert options.takes("-lm", "mmap+mlock")
    wording(options.without("-sm", "tensor"), tells="-sm")
