"""The plan experiment: its cases, plan arguments, values from a server's log, and the table."""

from pathlib import Path
from typing import Any

import pytest
from lab.plan_gpu.arguments import arguments
from lab.plan_gpu.cases import CASES, LONG, MOE, SHORT, TINY, chosen
from lab.plan_gpu.making import make, planned
from lab.plan_gpu.planning import parsed, predicted
from lab.plan_gpu.server_log import no_memory, said
from lab.plan_gpu.session import plan_arms
from lab.plan_gpu.sheet import Sheet
from lab.plan_gpu.sweeps import BESIDE, MOST, sweeps
from lab.plan_gpu.table import NOTHING, geometric_mean, memory_table, pairs, sweep_table, table

from unslow.look.models.gguf import blueprint, read_gguf, shortfall
from unslow.look.system.live import LiveSystem

LOG = Path(__file__).parents[1] / "machines" / "h200_llama_server_spill_other_process_holds_vram" / "server.log"
PLAN = ["-ngl", "24", "-ctk", "q8_0", "-ctv", "q8_0"]


def life(arm: str, number: int, short: float, long: float, **more: Any) -> dict[str, Any]:
    requests = [
        {"prompt": prompt, "prompt_n": 32, "prompt_ms": 100.0, "prompt_per_second": 320.0, "predicted_n": 16}
        | {"predicted_ms": 16e3 / speed, "predicted_per_second": speed}
        for prompt, speed in ((SHORT, short), (LONG, long))
    ]
    about = {"kind": "life", "sweep": "", "case": "8b_5g_16k", "round": number, "arm": arm, "answer": 64}
    return about | {"requests": requests, "used_mib": 4800, "buffers_mib": {"CUDA0 model": 4000.0}} | more


def plan(prompt: str, mid: float = 20.0) -> dict[str, Any]:
    speed = {"decode_tokens_per_s": {"low": 10.0, "mid": mid, "high": 30.0}}
    devices = [{"total_bytes": 4200 * 2**20}]
    about = {"kind": "plan", "case": "8b_5g_16k", "prompt": prompt}
    return about | {"arguments": PLAN, "speed": speed, "devices": devices}


def test_there_are_14_cases_and_one_trial_case():
    assert len(chosen([], [])) == 14
    assert {case.group for case in chosen([], [])} == {"8b", "moe", "gemma", "70b"}
    assert [case.name for case in chosen(["70b"], ["tiny"])] == ["70b_24g_8k", "70b_32g_8k", "tiny"]
    assert len({case.name for case in CASES}) == len(CASES)
    with pytest.raises(LookupError, match="9b"):
        chosen(["9b"], [])


def test_the_moe_model_has_its_stated_size():
    _, tensors, size = planned(MOE)
    assert size == pytest.approx(4.8e9, rel=0.005)
    assert next(one.plan for one in tensors if "ffn_up_exps" in one.plan.name).dimensions == (2048, 768, 64)


def test_a_generated_model_is_complete(tmp_path: Path):
    path = make(TINY, tmp_path, 2)
    gguf = read_gguf(LiveSystem(), str(path))
    assert path.stat().st_size == planned(TINY)[2]
    assert not shortfall(gguf)
    assert [tensor.name for tensor in blueprint(gguf).tensors] == [one.plan.name for one in planned(TINY)[1]]


def test_plan_settings_become_arguments():
    settings = [
        {"knob": "value_cache_type", "value": "q4_0"}, {"knob": "gpu_layers", "value": 24},
        {"knob": "kv_cache_type", "value": "q8_0"}, {"knob": "flash_attention", "value": True},
        {"knob": "batch", "value": 4096}, {"knob": "logical_batch", "value": 4096},
        {"knob": "kv_offload", "value": True}, {"knob": "op_offload", "value": False},
        {"knob": "fit_margin", "value": 256 * 2**20}, {"knob": "model_file", "value": "x.gguf"},
        {"knob": "threads", "value": None},
    ]  # fmt: skip
    words = " ".join(arguments(settings))
    assert words == ("-ngl 24 -ctk q8_0 -ctv q8_0 -fa on -ub 4096 -b 4096 --no-op-offload -fitt 256 -ctv q4_0")
    assert arguments([{"knob": "gpu_layers", "value": None}]) == ["-ngl", "99"]
    with pytest.raises(LookupError, match="power"):
        arguments([{"knob": "power", "value": 1}])


def test_the_recommended_option_is_parsed():
    option = '{"name": "b", "changes": [], "settings": [{"knob": "gpu_layers", "value": 3}], "speed": null}'
    row = parsed(f'{{"verdict": "better", "recommended": 0, "options": [{option}]}}')
    assert row["arguments"] == ["-ngl", "3"]
    assert predicted(row, "decode_tokens_per_s") is None
    assert predicted(plan(SHORT), "decode_tokens_per_s") == 20
    assert (
        "nothing fits" in parsed('{"verdict": "impossible", "reason": "nothing fits", "recommended": null}')["trouble"]
    )
    assert "trouble" in parsed("{}[")
    assert "trouble" in parsed('{"recommended": 7, "options": []}')


def test_equal_plans_are_measured_once():
    same = {SHORT: {"arguments": PLAN}, LONG: {"arguments": PLAN}}
    other = {SHORT: {"arguments": PLAN}, LONG: {"arguments": ["-ngl", "9"]}}
    assert [(arm.name, arm.prompts) for arm in plan_arms(same, both=False)] == [("plan", (SHORT, LONG))]
    assert [(arm.name, arm.prompts) for arm in plan_arms(other, both=False)] == [
        ("plan_short", (SHORT,)), ("plan_long", (LONG,)),
    ]  # fmt: skip
    assert [arm.prompts for arm in plan_arms(other, both=True)] == [(SHORT, LONG)] * 2
    assert [arm.name for arm in plan_arms({SHORT: None, LONG: {"arguments": PLAN}}, both=False)] == ["plan_long"]


def test_memory_is_parsed_from_a_server_log():
    told = said(LOG.read_text())
    assert told["buffers_mib"]["CUDA0 model"] == 2906.30
    assert told["buffers_mib"]["CUDA0 KV"] == 320
    assert told["buffers_mib"]["CUDA0 compute"] == 124.5
    assert told["breakdown_mib"]["CUDA0"] == {
        "total": 143155, "free": 1061, "self": 3350, "model": 2906, "context": 320, "compute": 124,
        "unaccounted": 138743,
    }  # fmt: skip
    assert told["breakdown_mib"]["Host"]["model"] == 2189
    assert told["offloaded"] == "21/33"
    assert any("successfully fit" in line for line in told["fit_says"])
    assert not no_memory(LOG.read_text())
    assert no_memory("I x\nE ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory\n")


def test_sweeps_are_small_and_of_known_cases():
    for case, arms in sweeps().values():
        assert chosen([], [case])
        assert len({arm.arguments for arm in arms}) == len(arms) <= MOST - BESIDE


def test_rows_survive_a_truncated_file(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    Sheet(path, go_on=False).write(life("fit", 0, 10, 8, wall_s=7.0))
    with path.open("a") as file:
        file.write('{"kind": "life", "ca')
    again = Sheet(path, go_on=True)
    assert again.done() == {("", "8b_5g_16k", 0, "fit")}
    assert again.life_s("8b_5g_16k", "fit") == 7.0
    assert again.plan("8b_5g_16k", SHORT) is None
    again.write(life("plan", 0, 20, 8))
    assert len(Sheet(path, go_on=True).done()) == 2


def test_the_table_pairs_rounds(wording):
    rows = [
        plan(SHORT), plan(LONG), life("fit", 0, 10, 8), life("plan", 0, 20, 8), life("plan", 1, 30, 4),
        life("fit", 1, 10, 8), life("fit", 2, 99, 99), life("-ngl 9", 0, 99, 99, sweep="8b"),
        life("fit", 0, 99, 99, sweep="8b"),
    ]  # fmt: skip
    short, long = pairs(rows)
    assert short.ratios("decode") == [2, 3]
    assert long.ratios("decode") == [1, 0.5]
    assert short.ratios("request_s")[0] == pytest.approx((0.1 + 6.4) / (0.1 + 3.2))
    mean, error = f"{geometric_mean([6**0.5, 0.5**0.5]):.2f} times", "127% of 2"  # predicted: 20 for 25, and for 6
    wording(table(rows), tells=("2.00 - 3.00", mean, error))
    assert "4200" in memory_table(rows)
    assert sweep_table(rows, "8b").splitlines()[1].endswith(("fit", "-ngl 9"))


def test_a_failed_plan_is_named(wording):
    rows = [
        life("fit", 0, 10, 8), life("plan", 0, 5, 4), life("fit", 1, 10, 8), life("plan", 1, 5, 4),
        life("plan", 2, 9, 9) | {"requests": [], "trouble": "It did not load", "out_of_memory": True},
    ]  # fmt: skip
    wording(table(rows), tells=("8b_5g_16k plan", "8b_4g_16k short, 8b_4g_16k long", "8b_5g_16k short, 8b_5g_16k long"))
    unplanned = {"kind": "plan", "case": "8b_3g_8k", "prompt": SHORT, "trouble": "nothing fits"}
    assert "8b_3g_8k planning" in table([*rows, unplanned])


def test_without_rows_the_tables_say_so():
    assert table([]) == memory_table([]) == sweep_table([], "8b") == NOTHING
