"""Which side of a comparison has a setting."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.comparisons import comparisons_told
from unslow.think.text.lines import prose_lines
from unslow.think.text.sides import (
    Sides,
    count_in,
    label_counts,
    label_has,
    side_with,
    side_with_more,
    slow_and_fast_side,
)


def first(*text: str, topic: Topic):
    found = comparisons_told(tuple(prose_lines(text, "p")))
    return next(one for one in found if topic in one.differs)


@pytest.mark.parametrize(
    ("text", "topic", "side"),
    [
        ("-fa off 50 t/s, -fa on 100 t/s", Topic.FLASH_ATTENTION, "fast"),
        ("with -fa on: 50 t/s, with -fa off: 100 t/s tg128", Topic.FLASH_ATTENTION, "slow"),
        ("flash_attn=0 gives 80 t/s, flash_attn=1 gives 40 t/s", Topic.FLASH_ATTENTION, "slow"),
        ("flash attention halves the speed", Topic.FLASH_ATTENTION, "slow"),
        ("enabling flash attention: 60 -> 30 t/s", Topic.FLASH_ATTENTION, "slow"),
        ("30 t/s with flash attention, was 60 t/s", Topic.FLASH_ATTENTION, "slow"),
        ("--enforce-eager: 11 tok/s, without it 33 tok/s", Topic.GRAPHS, "fast"),
        ("GGML_CUDA_DISABLE_GRAPHS=1 gives 70 t/s, default 50 t/s", Topic.GRAPHS, "slow"),
        ("with draft 52.13 tokens/s, without 67.73", Topic.DRAFT, "slow"),
        ("10.8 t/s with a draft vs 16 t/s plain", Topic.DRAFT, "slow"),
        ("a draft model doubles the speed", Topic.DRAFT, "fast"),
        ("generation is fine without the grammar", Topic.GRAMMAR, "slow"),
        ("two GPUs slower than one", Topic.GPU_COUNT, "slow"),
        ("two cards are no faster than one", Topic.GPU_COUNT, "slow"),
        ("1 GPU: 10 t/s, 2 GPUs: 20 t/s", Topic.GPU_COUNT, "fast"),
        ("fast with 1 GPU, very slow with 2 GPUs", Topic.GPU_COUNT, "slow"),
        ("-sm layer 23 tok/s, -sm row 7 tok/s", Topic.SPLIT_MODE, "slow"),
        ("-sm layer 30 t/s, tensor parallel 60 t/s", Topic.TENSOR_PARALLEL, "fast"),
    ],
)
def test_side_with_the_setting_is_found(text, topic, side):
    one = first(text, topic=topic)
    assert side_with(one.slow_is, one.fast_is, topic) == side


@pytest.mark.parametrize(
    ("text", "topic", "side"),
    [
        ("8 threads: 5 t/s, 16 threads: 9 t/s", Topic.THREADS, "fast"),
        ("4 threads is much faster than 8", Topic.THREADS, "slow"),
        ("32 threads: 99% CPU but slower than 2 threads", Topic.THREADS, "slow"),
        ("using fewer threads went from 5 to 9 t/s", Topic.THREADS, "slow"),
        ("llama.cpp with more threads is faster", Topic.THREADS, "fast"),
        ("-ub 128 reads 100 t/s, -ub 1024 reads 400 t/s", Topic.BATCH, "fast"),
    ],
)
def test_side_with_the_larger_count_is_found(text, topic, side):
    one = first(text, topic=topic)
    assert side_with_more(one.slow_is, one.fast_is, topic) == side


def test_bare_figures_take_the_sides_of_the_complaint():
    one = first("prefill 2.8x slower with tensor parallel", "1045.8 -> 378.9 T/s", topic=Topic.TENSOR_PARALLEL)
    other = [
        c for c in comparisons_told(tuple(prose_lines(["tensor parallel", "1045.8 -> 378.9 T/s"], "p"))) if c.slow > 1
    ]
    assert side_with(one.slow_is, one.fast_is, Topic.TENSOR_PARALLEL) == "slow"
    assert [side_with(c.slow_is, c.fast_is, Topic.TENSOR_PARALLEL) for c in other] == [None]


def test_labels_say_whether_a_setting_is_on():
    assert label_has("flash attention disabled", Topic.FLASH_ATTENTION) is False
    assert label_has("top_k 0", Topic.SAMPLER) is True
    assert label_has("--no-mmap", Topic.LOAD_MODE) is False
    assert label_has("without --enforce-eager", Topic.GRAPHS) is True
    assert label_has("v100", Topic.GRAPHS) is None
    assert count_in("n_threads 12", Topic.THREADS) == 12
    assert label_counts("8", "4 threads are", Topic.THREADS) == (8, 4)


def test_expectation_is_not_a_second_side():
    assert slow_and_fast_side("it is slower than it should be") == Sides("it is slower than it should be", "")
    assert slow_and_fast_side("disabling the cache fixed it") == Sides("", "disabling the cache fixed it")
    assert slow_and_fast_side("a draft is not slow, it is odd") == Sides("a draft is not slow", "")
