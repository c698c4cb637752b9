from itertools import count
from types import SimpleNamespace

import pytest
from fake_transformers import Config, Model, Tensor

from unslow.look.runtimes.transformers.bench import Timer

PROMPT = Tensor((1, 64))


def timed(model: Model, *args, **kwargs):
    """One call, on a clock that ticks once whenever it is read."""
    ticks = count()
    timer = Timer(model, clock=lambda: float(next(ticks)))
    timer.start()
    try:
        model.generate(*args, **kwargs)
    finally:
        timer.stop()
    return timer.calls


def test_decode_starts_with_the_second_forward_pass():
    ((sequences, done, _),) = timed(Model(), PROMPT, max_new_tokens=8)
    assert (sequences, done.prompt_tokens, done.generated_tokens) == (1, 64, 8)
    # begin is read at 0, the steps at 1 to 8, the end at 9
    assert (done.prefill_s, done.decode_s, done.client_total_s) == (2, 7, 9)


def test_a_batch_is_counted_per_sequence():
    ((sequences, done, _),) = timed(Model(), input_ids=Tensor((4, 10)), max_new_tokens=8)
    assert (sequences, done.prompt_tokens, done.generated_tokens) == (4, 10, 8)


def test_a_single_generated_token_is_all_prefill():
    ((_, done, _),) = timed(Model(), PROMPT, max_new_tokens=1)
    assert (done.prefill_s, done.decode_s) == (2, 0)


def test_without_forward_hooks_prefill_is_not_separated():
    model = Model()
    model.register_forward_pre_hook = lambda _hook: SimpleNamespace(remove=lambda: None)
    ((_, done, _),) = timed(model, PROMPT, max_new_tokens=8)
    assert (done.prefill_s, done.decode_s) == (0, 1)


def test_the_prompt_is_subtracted_only_if_it_is_returned():
    encoder = Model(config=Config(), gives_back=False)
    encoder.config.is_encoder_decoder = True
    ((_, done, _),) = timed(encoder, PROMPT, max_new_tokens=8)
    assert (done.prompt_tokens, done.generated_tokens) == (64, 8)
    ((_, done, _),) = timed(Model(), inputs_embeds=Tensor((1, 64, 512)), max_new_tokens=8)
    assert (done.prompt_tokens, done.generated_tokens) == (64, 8)


def test_a_generate_output_object_is_counted_by_its_sequences():
    model = Model()
    plain = model.generate
    model.generate = lambda *a, **k: SimpleNamespace(sequences=plain(*a, **k))
    ((_, done, _),) = timed(model, PROMPT, max_new_tokens=8)
    assert done.generated_tokens == 8


def test_an_output_without_tokens_is_not_counted():
    assert timed(Model(), PROMPT, max_new_tokens=0) == []
    model = Model()
    model.generate = lambda *_a, **_k: "text"
    assert timed(model, PROMPT) == []


def test_exceptions_propagate_and_hooks_are_removed():
    model = Model(fails=True)
    with pytest.raises(RuntimeError, match="out of memory"):
        timed(model, PROMPT)
    assert model.hooks == []
    assert "generate" not in vars(model)


def test_a_custom_generate_is_restored():
    model = Model()
    own = model.generate = lambda *_a, **_k: Tensor((1, 72))
    assert len(timed(model, PROMPT)) == 1
    assert model.generate is own


def test_run_delay_during_generate_is_recorded():
    waits = iter([1.0, 3.5])
    timer = Timer(Model(), waited=lambda: next(waits))
    timer.wrap(timer.model.generate)(PROMPT)
    assert timer.calls[0].completion.waited_s == 2.5
