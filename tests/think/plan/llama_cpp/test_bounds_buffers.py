"""Unknown compute buffers are bounded by known ones, and guessed from those of other cache types."""

from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.plan.llama_cpp.bounds import Buffers

WHOLE, MANY, PARTLY = (1, 0, 0), (3, 0, 0), (3, 1, 2)
ENOUGH = (0, 0)


def asked(micro_batch: int, cache: str = "F16") -> Settings:
    return Settings(micro_batch=micro_batch, key_type=cache, value_type=cache)


def test_no_bounds_at_first() -> None:
    buffers = Buffers(2)
    assert buffers.least(asked(512)).of(MANY) == (0, 0)
    assert not buffers.has_base(asked(512))
    assert buffers.guesses(asked(512)) == {}


def test_half_the_buffer_of_a_smaller_micro_batch_is_a_bound() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(128), MANY, (100,), ENOUGH)
    buffers.learn(asked(256), MANY, (150,), ENOUGH)
    assert buffers.least(asked(256)).of(MANY) == (150,)
    assert buffers.least(asked(512)).of(MANY) == (75,)
    assert buffers.least(asked(64)).of(MANY) == (0,)


def test_buffer_without_host_layers_bounds_the_others() -> None:
    buffers = Buffers(1)
    buffers.learn_base(asked(512), (200,))
    assert buffers.has_base(asked(512))
    assert buffers.least(asked(512)).of(MANY) == (120,)
    assert buffers.least(asked(1024)).of(MANY) == (120,)
    assert buffers.least(asked(256)).of(MANY) == (0,)


def test_placing_with_less_on_the_host_bounds_one_with_more() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), WHOLE, (200,), ENOUGH)
    assert buffers.least(asked(512)).of(PARTLY) == (120,)
    assert buffers.least(asked(512)).of((0, 1, 0)) == (0,)


def test_failed_placing_raises_the_guess_but_not_the_bound() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), MANY, (300,), (5, 5))
    buffers.learn(asked(512), MANY, (290,), (7, -3))
    assert buffers.least(asked(512), {}).of(MANY) == (307,)
    assert buffers.least(asked(512)).of(MANY) == (290,)


def test_bounds_of_several_gpus_are_loose() -> None:
    buffers = Buffers(2)
    buffers.learn(asked(512), MANY, (300, 40), ENOUGH)
    buffers.learn(asked(512), MANY, (100, 200), ENOUGH)
    assert buffers.least(asked(512)).of(MANY) == (60, 24)


def test_other_cache_types_give_guesses_not_bounds() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), MANY, (300,), ENOUGH)
    small = asked(512, "Q8_0")
    guesses = buffers.guesses(small)
    assert buffers.least(small).of(MANY) == (0,)
    assert buffers.least(small, guesses).of(MANY) == (300,)
    assert buffers.guesses(small._replace(cache_on_gpu=False)) == {}
    assert buffers.guesses(asked(256, "Q8_0")) == {}


def test_hint_for_many_host_layers_guesses_every_kind() -> None:
    buffers = Buffers(1)
    buffers.hint(asked(512), MANY, [300])
    guessed = buffers.least(asked(512), buffers.guesses(asked(512)))
    assert guessed.of(PARTLY) == (300,)
    assert guessed.of(WHOLE) == (0,)
    assert buffers.least(asked(512)).of(MANY) == (0,)  # a hint is never taken for knowledge


def test_own_layouts_win_over_guesses() -> None:
    buffers = Buffers(1)
    buffers.learn(asked(512), PARTLY, (300,), ENOUGH)
    small = asked(512, "Q8_0")
    buffers.learn(small, MANY, (350,), ENOUGH)
    assert buffers.least(small, buffers.guesses(small)).of(PARTLY) == (350,)
