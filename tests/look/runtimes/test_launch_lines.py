"""Launch lines and a router of a real llama-server, recorded by `python -m lab.launch_lines`: known facts are true."""

import json
import os
from pathlib import Path

import pytest
from lab.launch_lines import LINES, compared, look_at, prepared

from unslow.facts.values import Known
from unslow.look.processes import Process
from unslow.look.runtimes import llama_cpp
from unslow.look.system.recorded import RecordedSystem

FOLDER = Path(__file__).parent / "launch_lines"
RECORDED = sorted(path.parent for path in FOLDER.glob("*/truth.json"))
ALWAYS = (
    "name", "version", "pid", "url", "command", "environment", "log_level", "state", "slots", "context_per_slot",
    "context_length", "kv_unified", "kv_type_k", "kv_type_v", "flash_attention", "batch", "ubatch", "threads",
    "threads_batch", "fit", "fit_margin_bytes", "fit_context_min", "tensor_overrides", "split_mode", "main_gpu",
    "load_mode", "kv_offload", "op_offload", "repack", "swa_full", "prompt_cache", "cache_reuse", "cache_ram_bytes",
    "priority", "polling", "metrics_endpoint", "top_k", "busy_slots", "resident_bytes",
)  # fmt: skip


def replayed(folder: Path):
    kept = json.loads((folder / "truth.json").read_text())
    process = Process(RecordedSystem(folder), kept["pid"], "llama-server")
    [subject] = llama_cpp.read(process, "")
    return subject, kept["truth"]


def test_every_launch_line_is_recorded():
    assert {folder.name for folder in RECORDED} == {line.name for line in LINES}


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_facts_agree_with_the_truth_in_the_log(folder):
    subject, truth = replayed(folder)
    assert {name: verdict for name, *_, verdict in compared(subject.runtime, truth)} == dict.fromkeys(truth, "true")


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_every_knowable_setting_is_known(folder):
    runtime = replayed(folder)[0].runtime
    assert {name for name in ALWAYS if not isinstance(runtime.fact(name), Known)} == set()


@pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)
def test_the_model_is_read_from_its_file(folder):
    model = replayed(folder)[0].model
    assert model.path.need().endswith("tiny.gguf")
    assert model.layers.need() > 0


def test_a_server_behind_a_router_names_its_front():
    runtime = replayed(FOLDER / "router")[0].runtime
    assert runtime.process.front.need() == "router at http://127.0.0.1:18733"
    assert runtime.process.url.need() != "http://127.0.0.1:18733"


def test_gpu_layers_without_a_gpu_are_a_contradiction():
    found = {folder.name: [c.about for c in replayed(folder)[0].contradictions] for folder in RECORDED}
    assert {name: about for name, about in found.items() if about} == {"locked": ["gpu_layers"]}


def test_the_api_key_is_used_and_not_recorded():
    subject, _ = replayed(FOLDER / "locked")
    assert subject.runtime.state.need() == "loaded"
    assert "canary" not in (FOLDER / "locked" / "recording.jsonl").read_text()


@pytest.mark.real
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_every_launch_line_gives_a_subject_live(line):
    server, model = os.environ.get("UNSLOW_LLAMA_SERVER"), os.environ.get("UNSLOW_LLAMA_MODEL")
    if not server or not model:
        pytest.skip("UNSLOW_LLAMA_SERVER and UNSLOW_LLAMA_MODEL name no server and model")
    assert look_at(server, model, line, prepared(model), None)
