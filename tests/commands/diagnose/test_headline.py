"""The first sentence of a diagnosis: what is slow, with plausible numbers."""

from pathlib import Path

import pytest

from unslow.commands._command_lines import with_fix_commands
from unslow.commands.diagnose.target import read_stored
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parents[2] / "machines"


def summary_of(name: str) -> str:
    snapshot = read_stored(str(MACHINES / name))
    return with_fix_commands(diagnose(snapshot), snapshot).subjects[0].summary


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("built_model_on_a_hard_disk", "The model takes 38 s to load; decode itself runs at 131 tok/s"),
        ("built_thinking_before_a_short_answer", "The visible answer starts only after about 15 s of thinking"),
        ("built_m4_max_thinks_long", "The visible answer starts only after about 158 s of thinking; decode itself"),
        (
            "built_windows_rtx_4060_cache_outgrows_memory",
            "42 tok/s at the start of a conversation, 4 tok/s at 16,384 tokens of context",
        ),
    ],
)
def test_summary_starts_with_what_is_slow(name, start):
    assert summary_of(name).startswith(start)


def test_no_speed_is_expected_where_memory_is_missing():
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
        ("built_vllm_queue_of_eight", "(`--max-num-seqs 32`)", "--gpu-memory-utilization"),
    ],
)
def test_first_fix_suits_the_machine(name, words, never):
    said = summary_of(name)
    assert words in said
    assert never not in said


def test_gain_of_the_fix_is_compared_with_the_stated_speed(wording):
    wording(summary_of("built_windows_rtx_4060_shared_memory"), tells="4.08")
    assert "(0%)" not in summary_of("built_container_of_two_cpus_with_2_threads")
    assert "faster cores" in summary_of("built_container_of_two_cpus_with_2_threads")
    wording(summary_of("lab_gpu_healthy_eight_users"))


def test_speed_that_is_as_expected_is_not_listed_as_slow(wording):
    said = summary_of("built_vllm_eight_rtx_4090_on_four_lanes")
    wording(said, tells="14")
    assert "reads prompts" not in said
