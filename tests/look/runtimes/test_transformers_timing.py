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


def test_the_second_step_begins_the_answer():
    ((sequences, done, _),) = timed(Model(), PROMPT, max_new_tokens=8)
    assert (sequences, done.prompt_tokens, done.generated_tokens) == (1, 64, 8)
    # begin is read at 0, the steps at 1 to 8, the end at 9
    assert (done.prefill_s, done.decode_s, done.client_total_s) == (2, 7, 9)


def test_a_batch():
    ((sequences, done, _),) = timed(Model(), input_ids=Tensor((4, 10)), max_new_tokens=8)
    assert (sequences, done.prompt_tokens, done.generated_tokens) == (4, 10, 8)


def test_a_single_token_is_all_prompt():
    ((_, done, _),) = timed(Model(), PROMPT, max_new_tokens=1)
    assert (done.prefill_s, done.decode_s) == (2, 0)


def test_a_model_that_skips_hooks_does_not_tell_its_prompt_apart():
    model = Model()
    model.register_forward_pre_hook = lambda _hook: SimpleNamespace(remove=lambda: None)
    ((_, done, _),) = timed(model, PROMPT, max_new_tokens=8)
    assert (done.prefill_s, done.decode_s) == (0, 1)


def test_the_prompt_is_only_taken_off_where_it_is_given_back():
    encoder = Model(config=Config(), gives_back=False)
    encoder.config.is_encoder_decoder = True
    ((_, done, _),) = timed(encoder, PROMPT, max_new_tokens=8)
    assert (done.prompt_tokens, done.generated_tokens) == (64, 8)
    ((_, done, _),) = timed(Model(), inputs_embeds=Tensor((1, 64, 512)), max_new_tokens=8)
    assert (done.prompt_tokens, done.generated_tokens) == (64, 8)


def test_an_answer_with_scores_and_all():
    model = Model()
    plain = model.generate
    model.generate = lambda *a, **k: SimpleNamespace(sequences=plain(*a, **k))
    ((_, done, _),) = timed(model, PROMPT, max_new_tokens=8)
    assert done.generated_tokens == 8


def test_what_is_no_answer_is_not_counted():
    assert timed(Model(), PROMPT, max_new_tokens=0) == []
    model = Model()
    model.generate = lambda *_a, **_k: "text"
    assert timed(model, PROMPT) == []


def test_errors_pass_and_nothing_is_left_behind():
    model = Model(fails=True)
    with pytest.raises(RuntimeError, match="out of memory"):
        timed(model, PROMPT)
    assert model.hooks == []
    assert "generate" not in vars(model)


def test_a_generate_of_the_models_own_comes_back():
    model = Model()
    own = model.generate = lambda *_a, **_k: Tensor((1, 72))
    assert len(timed(model, PROMPT)) == 1
    assert model.generate is own


def test_waiting_for_a_processor():
    waits = iter([1.0, 3.5])
    timer = Timer(Model(), waited=lambda: next(waits))
    timer.wrapped(timer.model.generate)(PROMPT)
    assert timer.calls[0].completion.waited_s == 2.5
