"""Recordings of real servers on a GPU machine: settings by environment, a router, Transformers."""

from pathlib import Path

from unslow.commands.diagnose.target import read_stored
from unslow.facts.snapshot import Subject, dump_snapshot

MACHINES = Path(__file__).parent / "machines"


def only_subject(name: str) -> Subject:
    (subject,) = read_stored(str(MACHINES / name)).subjects
    return subject


def test_settings_from_the_environment_are_known_with_their_source():
    runtime = only_subject("h200_live_environment").runtime
    assert runtime.placement.gpu_layers_set.value == 33
    assert "LLAMA_ARG_N_GPU_LAYERS" in runtime.placement.gpu_layers_set.source
    assert runtime.context.requested.value == 16384
    assert runtime.scheduling.slots.value == 2
    assert runtime.compute.flash_attention.value is False
    assert (runtime.placement.gpu_layers.value, runtime.placement.layers.value) == (33, 33)


def test_the_api_key_of_the_server_is_not_recorded():
    recording = (MACHINES / "h200_live_environment" / "recording.jsonl").read_text()
    assert "--api-key" in recording
    assert "canary" not in recording
    assert b"canary" not in dump_snapshot(read_stored(str(MACHINES / "h200_live_environment")))


def test_the_child_of_a_router_is_the_subject_with_the_router_as_front():
    subject = only_subject("h200_live_router")
    assert subject.model.quant.value == "Q4_0"
    assert "8090" in subject.runtime.process.front.value


def test_a_watched_transformers_model_gives_placement_and_kernels():
    runtime = only_subject("h200_transformers_8b_eager").runtime
    assert (runtime.placement.gpu_layers.value, runtime.placement.layers.value) == (32, 32)
    assert runtime.compute.weights_type.value == "bfloat16"
    assert runtime.compute.attention.value == "sdpa"
    assert runtime.compute.eager.value is True
    assert only_subject("h200_transformers_8b_static").runtime.compute.eager.value is False
