"""Buffers that are not known yet are bound by those that are, and guessed by those of other caches."""

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.bounds import Buffers

WHOLE, MANY, PARTLY = (1, 0, 0), (3, 0, 0), (3, 1, 2)
ENOUGH = (0, 0)


def asked(micro_batch: int, cache: str = "F16") -> Settings:
    return Settings(micro_batch=micro_batch, key_type=cache, value_type=cache)


def test_nothing_is_known_at_first() -> None:
    buffers = Buffers(2)
    assert buffers.least(asked(512)).of(MANY) == (0, 0)
    assert not buffers.has_base(asked(512))
    assert buffers.guesses(asked(512)) == {}


def test_half_of_what_a_smaller_micro_batch_needs_is_a_bound() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(128), MANY, (100,), ENOUGH)
    buffers.learn(asked(256), MANY, (150,), ENOUGH)
    assert buffers.least(asked(256)).of(MANY) == (150,)
    assert buffers.least(asked(512)).of(MANY) == (75,)
    assert buffers.least(asked(64)).of(MANY) == (0,)


def test_with_nothing_on_the_host_they_are_about_the_smallest() -> None:
    buffers = Buffers(1)
    buffers.learn_base(asked(512), (200,))
    assert buffers.has_base(asked(512))
    assert buffers.least(asked(512)).of(MANY) == (120,)
    assert buffers.least(asked(1024)).of(MANY) == (120,)
    assert buffers.least(asked(256)).of(MANY) == (0,)


def test_what_leaves_less_to_the_host_is_a_bound_for_what_leaves_more() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), WHOLE, (200,), ENOUGH)
    assert buffers.least(asked(512)).of(PARTLY) == (120,)
    assert buffers.least(asked(512)).of((0, 1, 0)) == (0,)


def test_what_did_not_do_likely_needs_more_and_bounds_stay_what_was_seen() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), MANY, (300,), (5, 5))
    buffers.learn(asked(512), MANY, (290,), (7, -3))
    assert buffers.least(asked(512), {}).of(MANY) == (307,)
    assert buffers.least(asked(512)).of(MANY) == (290,)


def test_of_several_gpus_each_may_need_far_less_than_was_seen() -> None:
    buffers = Buffers(2)
    buffers.learn(asked(512), MANY, (300, 40), ENOUGH)
    buffers.learn(asked(512), MANY, (100, 200), ENOUGH)
    assert buffers.least(asked(512)).of(MANY) == (60, 24)


def test_other_caches_are_guesses_and_no_bounds() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), MANY, (300,), ENOUGH)
    small = asked(512, "Q8_0")
    guesses = buffers.guesses(small)
    assert buffers.least(small).of(MANY) == (0,)
    assert buffers.least(small, guesses).of(MANY) == (300,)
    assert buffers.guesses(small._replace(cache_on_gpu=False)) == {}
    assert buffers.guesses(asked(256, "Q8_0")) == {}


def test_with_many_layers_on_the_host_all_sorts_are_guessed_alike() -> None:
    buffers = Buffers(1)
    buffers.hint(asked(512), MANY, [300])
    guessed = buffers.least(asked(512), buffers.guesses(asked(512)))
    assert guessed.of(PARTLY) == (300,)
    assert guessed.of(WHOLE) == (0,)
    assert buffers.least(asked(512)).of(MANY) == (0,)  # a hint is never taken for knowledge


def test_own_layouts_come_before_guesses() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), PARTLY, (300,), ENOUGH)
    small = asked(512, "Q8_0")
    buffers.learn(small, MANY, (350,), ENOUGH)
    assert buffers.least(small, buffers.guesses(small)).of(PARTLY) == (350,)
