"""Observations in prose, and near misses."""

import pytest

from unslow.facts.account import Topic
from unslow.think.text.lines import topics_of
from unslow.think.text.prose import read_words


def remarks(line: str) -> dict[Topic, bool]:
    """Each topic of a line, with whether it is denied."""
    return {remark.topic: remark.denied for remark in read_words([line], "r").subject.account.remarks.value_or(())}


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("the GPU is not used at all", Topic.GPU_UNUSED),
        ("Ollama does not use my GPU", Topic.GPU_UNUSED),
        ("everything runs on the CPU", Topic.GPU_UNUSED),
        ("GPU is at 0% while it generates", Topic.GPU_UNUSED),
        ("this box has no GPU", Topic.GPU_ABSENT),
        ("libcudart.so.12 could not be loaded", Topic.GPU_LIBRARY_MISSING),
        ("my card is no longer supported by CUDA 13", Topic.GPU_NOT_SUPPORTED),
        ("works after a restart, after suspend it is on the CPU", Topic.GPU_LOST),
        ("it picks the integrated Intel UHD graphics instead", Topic.WRONG_GPU),
        ("8.2 GB of shared GPU memory is in use", Topic.SHARED_MEMORY_USED),
        ("there is 6 GB of VRAM free", Topic.VRAM_FREE),
        ("VRAM is full", Topic.VRAM_FULL),
        ("another process holds 9 GB of VRAM", Topic.OTHER_VRAM_USER),
        ("it is swapping heavily, swap usage grows", Topic.SWAPPING),
        ("the SSD reads at 3 GB/s all the time", Topic.DISK_BUSY),
        ("CPU usage at 100%", Topic.CPU_BUSY),
        ("one core is pegged at 100 %", Topic.ONE_CORE_BUSY),
        ("only the E-cores are busy", Topic.EFFICIENCY_CORES_BUSY),
        ("I put the experts on the CPU with --n-cpu-moe 20", Topic.EXPERTS_ON_CPU),
        ("GPU utilization is below 20 %", Topic.GPU_IDLE),
        ("the card is thermal throttling", Topic.THROTTLED),
        ("torch 2.6.0+cpu is installed", Topic.CPU_ONLY_BUILD),
        ("compiled with AVX2 = 0", Topic.MISSING_INSTRUCTIONS),
        ("the whole prompt is re-processed on every turn: reprocesses the full context", Topic.PROMPT_AGAIN),
        ("the model is unloaded and reloaded between requests", Topic.RELOADS),
        ("curl on the command line is fast, the web page is not", Topic.SERVER_FAST),
        ("requests are answered one after another", Topic.QUEUED),
        ("KV cache is full and requests are preempted", Topic.CACHE_FULL),
        ("more threads make no difference", Topic.SATURATED),
        ("two cards give no speedup", Topic.NO_GAIN),
    ],
)
def test_observations_give_their_topic(line, topic):
    assert remarks(line).get(topic) is False


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("the GPU is used", Topic.GPU_UNUSED),
        ("it uses 8 CPU threads", Topic.GPU_UNUSED),
        ("no GPU usage is shown", Topic.GPU_ABSENT),
        ("swap is not used", Topic.SWAPPING),
        ("swap: 0 GB used", Topic.SWAPPING),
        ("I swapped the card", Topic.SWAPPING),
        ("CPU usage is low", Topic.CPU_BUSY),
        ("an expert told me to use the CPU", Topic.GPU_LIBRARY_MISSING),
        ("the model loads in 3 s", Topic.RELOADS),
        ("it answers at once", Topic.QUEUED),
    ],
)
def test_near_misses_do_not_give_the_topic(line, topic):
    assert topic not in remarks(line)


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("it is not running on the CPU", Topic.GPU_UNUSED),
        ("it no longer runs on the CPU", Topic.GPU_UNUSED),
        ("no shared GPU memory is used", Topic.SHARED_MEMORY_USED),
        ("there is no thermal throttling", Topic.THROTTLED),
        ("nothing else: no other process on the GPU", Topic.OTHER_VRAM_USER),
    ],
)
def test_denials_are_marked(line, topic):
    assert remarks(line).get(topic, True) is True


def test_remark_keeps_its_text_and_line():
    (remark,) = read_words(["", "The GPU is NOT used!"], "report.txt").subject.account.remarks.need()
    assert (remark.text, remark.source) == ("The GPU is NOT used!", "report.txt:2")


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("after updating", {Topic.VERSION}),
        ("with flash attention off", {Topic.FLASH_ATTENTION}),
        ("bf16 against fp16", {Topic.QUANT_TYPE}),
        ("kv cache type q8_0", {Topic.KV_TYPE}),
        ("-sm row", {Topic.SPLIT_MODE}),
        ("with 8 threads", {Topic.THREADS}),
        ("on a single gpu", {Topic.GPU_COUNT}),
        ("with speculative decoding", {Topic.DRAFT}),
        ("nothing in particular", set()),
    ],
)
def test_differences_give_their_topics(text, topics):
    assert set(topics_of(text)) == topics
