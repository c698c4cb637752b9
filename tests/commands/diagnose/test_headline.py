"""What a person reads first is what is slow, in figures that can be so."""

from pathlib import Path

import pytest

from unslow.commands._fix_commands import spelled
from unslow.commands.diagnose.target import read_stored
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parents[2] / "machines"


def summary_of(name: str) -> str:
    snapshot = read_stored(str(MACHINES / name))
    return spelled(diagnose(snapshot), snapshot).subjects[0].summary


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("built_model_on_a_hard_disk", "The model takes 38 s to load; the answer itself comes at 131 tokens"),
        ("built_thinking_before_a_short_answer", "The answer begins only after about 15 s of thinking"),
        ("built_m4_max_thinks_long", "The answer begins only after about 158 s of thinking; the answer itself"),
        (
            "built_windows_rtx_4060_cache_outgrows_memory",
            "It generates 42 tokens per second at the start of a chat, and 4 once it is 16,384 tokens long",
        ),
    ],
)
def test_the_headline_is_what_is_slow(name, start):
    assert summary_of(name).startswith(start)


def test_no_speed_is_promised_of_memory_that_is_not_there():
    for name in ("built_rtx_4060_llama_70b", "built_rtx_4060_ti_full_link", "built_llama_70b_in_32_gib"):
        assert "this hardware should give" not in summary_of(name)


@pytest.mark.parametrize(
    ("name", "words", "never"),
    [
        ("built_windows_igpu_while_rtx_4060_idles", "(`-dev Vulkan0`)", "-dev '"),
        ("built_rx_9070_xt_held_at_500_mhz", "(`sudo rocm-smi --resetclocks`)", "nvidia"),
        ("built_m2_max_thermal_pressure", "more air", "power limit"),
        ("built_pytorch_memory_in_pieces", "expandable_segments:True", "--max-model-len"),
        ("built_model_on_a_hard_disk", "keep the model on a local NVMe disk.", "remove"),
        ("built_rtx_3090_and_p40_uneven_split", "(`-ts 1,0`)", "0.0"),
        ("lab_gpu_parallel_slots", "-np 1 -c 131072", "-c 1179648"),
        ("lab_cpu_models_take_turns", "`--models-max 2`", "one context"),
        ("lab_cpu_grammar", "without it", "--top-k"),
        ("lab_cpu_clock_in_prompt", "a stable start of the prompt", "--no-cache-prompt"),
        ("lab_gpu_gpu_hidden", "(`unset CUDA_VISIBLE_DEVICES`)", "a build"),
        ("built_vllm_queue_of_eight", "(`--max-num-seqs 16`)", "--gpu-memory-utilization"),
    ],
)
def test_the_first_fix_fits_the_machine(name, words, never):
    said = summary_of(name)
    assert words in said
    assert never not in said


def test_what_the_fix_gives_is_held_against_what_was_told(wording):
    wording(summary_of("built_windows_rtx_4060_shared_memory"), tells="4.08")
    assert "(0%)" not in summary_of("built_container_of_two_cpus_with_2_threads")
    assert "faster cores" in summary_of("built_container_of_two_cpus_with_2_threads")
    wording(summary_of("lab_gpu_healthy_eight_users"))


def test_a_speed_that_is_reached_is_not_told_among_what_is_slow(wording):
    said = summary_of("built_vllm_eight_rtx_4090_on_four_lanes")
    wording(said, tells="14")
    assert "reads prompts" not in said
