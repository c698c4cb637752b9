"""KoboldCpp: processes, flags, settings files, and answers."""

import json

import pytest
from lab.replay import serve
from proc_table import ProcTable
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, dump_snapshot
from unslow.facts.values import Origin, Unknown, reported_fact
from unslow.look.processes import read_processes
from unslow.look.runtimes import koboldcpp
from unslow.look.runtimes.koboldcpp import parse_name, parse_speed
from unslow.look.runtimes.koboldcpp.flags import parse_command, parse_config, requested_settings, without_secrets
from unslow.look.system import Answer
from unslow.look.system.live import LiveSystem

MIB = 1024**2
LINE = [
    "koboldcpp", "--model", "/m/a.gguf", "--usecublas", "lowvram", "1", "--gpulayers", "20", "--contextsize", "8192",
    "--threads", "8", "--blasbatchsize", "1024", "--tensor_split", "7", "3", "--quantkv", "1", "--flashattention",
    "--moecpu", "--port", "5005", "--password", "hunter2hunter2",
]  # fmt: skip
SETTINGS = {
    "model": None, "model_param": "/m/a.gguf", "gpulayers": 41, "contextsize": 16384, "usecublas": ["normal", "0"],
    "flashattention": True, "usemmap": False, "quantkv": 2, "blasbatchsize": 512, "tensor_split": None,
}  # fmt: skip


def facts(*words: str, version: str = "1.117.1") -> Runtime:
    return requested_settings(parse_command(["koboldcpp", *words]), version)


def test_a_koboldcpp_that_restarts_itself_is_found_once():
    table = ProcTable().add(10, "koboldcpp-linux", LINE, resident_kb=10)
    table.add(11, "koboldcpp-linux", LINE, parent=10, resident_kb=9000)
    table.add(20, "python3", ["/usr/bin/python3", "koboldcpp.py", "m.gguf"]).add(21, "python3", ["python3", "other.py"])
    found = koboldcpp.find(read_processes(table.system))
    assert [p.pid for p in found] == [10, 20]
    (subject,) = koboldcpp.read(found[0], "")
    assert (subject.runtime.process.pid.value, subject.runtime.process.resident_bytes.value) == (11, 9000 * 1024)


def test_koboldcpp_flags_give_settings():
    runtime = requested_settings(parse_command(LINE), "")
    assert (runtime.placement.gpu_layers_set.value, runtime.context.requested.value, runtime.compute.threads.value) == (
        20,
        8192,
        8,
    )
    assert (runtime.compute.batch.value, runtime.placement.tensor_split.value, runtime.cache.offload.value) == (
        1024,
        [7.0, 3.0],
        False,
    )
    assert (runtime.compute.flash_attention.value, runtime.cache.type_k.value, runtime.cache.type_v.value) == (
        True,
        "q8_0",
        "q8_0",
    )
    assert runtime.placement.tensor_overrides.value == ["--n-cpu-moe 999"]
    assert (runtime.placement.device_set.value, runtime.placement.fit.value) == ("CUDA1", False)
    assert runtime.placement.gpu_layers_set.source == "command line: --gpulayers 20"


def test_positional_model_and_port_are_parsed():
    given = parse_command(["python3", "koboldcpp.py", "/m/a.gguf", "5002", "--usecublas"])
    assert (given["model_param"].value, given["port"].value) == ("/m/a.gguf", "5002")


def test_new_flag_spellings_and_automatic_layers_are_parsed():
    runtime = facts("-ngl", "-1", "-c", "4096", "-ot", "exps=CPU", "-ncmoe", "12", "--usecpu", "-mg", "0", "-sm", "row")
    assert isinstance(runtime.placement.gpu_layers_set, Unknown)
    assert (runtime.placement.fit.value, runtime.placement.fit_margin_bytes.value) == (True, 1024 * MIB)
    assert runtime.placement.tensor_overrides.value == ["--n-cpu-moe 12", "exps=CPU"]
    assert (
        runtime.placement.device_set.value,
        runtime.placement.main_gpu.value,
        runtime.placement.split_mode.value,
    ) == ("none", 0, "row")


@pytest.mark.parametrize(
    ("version", "flash", "mode"), [("1.117.1", True, "none"), ("1.76", False, "mmap"), ("1.90", None, None)]
)
def test_koboldcpp_defaults_depend_on_its_version(version, flash, mode):
    runtime = facts(version=version)
    assert runtime.compute.flash_attention.value_or(None) is flash
    assert runtime.placement.load_mode.value_or(None) == mode


def test_without_flash_attention_only_keys_are_quantized():
    runtime = facts("--quantkv", "q4_0", "--noflashattention")
    assert (runtime.cache.type_k.value, runtime.cache.type_v.value) == ("q4_0", "f16")
    assert isinstance(facts("--quantkv", "3").cache.type_k, Unknown)


def test_koboldcpp_draft_flags_are_parsed():
    assert facts("--draftmodel", "/m/d.gguf", "--draftamount", "8").sampling.draft_tokens.value == 8
    assert facts("--usemtp").sampling.speculative.value == "draft-mtp"
    assert isinstance(facts().sampling.speculative, Unknown)


def test_invalid_koboldcpp_numbers_are_unknown():
    runtime = facts("--gpulayers", "--contextsize", "9" * 40, "--threads", "many", "--tensor_split", "1")
    assert runtime.placement.gpu_layers_set.value == 1  # the flag alone
    assert isinstance(runtime.context.requested, Unknown)
    assert isinstance(runtime.compute.threads, Unknown)
    assert facts(version="1.117.1").compute.flash_attention.value is True
    assert isinstance(facts(version="newest").compute.flash_attention, Unknown)


def test_a_kcpps_settings_file_wins_over_flags():
    table = ProcTable().add(10, "koboldcpp", ["koboldcpp", "--config", "my.kcpps", "--gpulayers", "3"])
    table.system.files["/home/ann/my.kcpps"] = json.dumps(SETTINGS)
    (process,) = koboldcpp.find(read_processes(table.system))
    (subject,) = koboldcpp.read(process, "")
    assert (subject.runtime.placement.gpu_layers_set.value, subject.runtime.context.requested.value) == (41, 16384)
    assert (subject.runtime.cache.type_k.value, subject.model.path.value) == ("q4_0", "/m/a.gguf")
    assert subject.runtime.placement.gpu_layers_set.source == "/home/ann/my.kcpps: gpulayers"
    assert parse_config([1], "x") == {}


def test_koboldcpp_answers_are_parsed():
    with serve("koboldcpp") as url:
        (subject,) = koboldcpp.read_url(LiveSystem(), f"{url}/v1", "")
    assert (subject.runtime.version.value, subject.runtime.context.length.value) == ("1.117.1", 12288)
    assert (subject.runtime.history.decode_tokens_per_s.value, subject.runtime.scheduling.busy_slots.value) == (32.0, 0)
    assert subject.model.name.value == "Qwen3-8B-Q4_K_M"


def test_old_koboldcpp_milliseconds_are_converted():
    runtime = parse_speed({"total_gens": 1, "last_eval": 50.0, "last_process": 2.0, "idle": 0, "queue": 2}, "perf")
    assert (runtime.history.decode_tokens_per_s.value, runtime.history.prefill_tokens_per_s.value) == (20.0, 500.0)
    assert (runtime.scheduling.busy_slots.value, runtime.scheduling.deferred_requests.value) == (1, 2)
    assert isinstance(parse_speed({"total_gens": 0, "last_eval": 0}, "perf").history.decode_tokens_per_s, Unknown)


def test_a_hidden_koboldcpp_model_name_asks_for_the_key(wording):
    hidden = parse_name({"result": "koboldcpp/protected-model"}, "s")
    wording(hidden.how_to_get, tells="--api-key")
    wording(parse_name({"result": "inactive"}, "s").how_to_get, tells="--model")


def test_the_koboldcpp_password_is_used_and_not_stored():
    table = ProcTable().add(10, "koboldcpp", LINE, environment="KCPP_PASSWORD=other\0PATH=/bin\0")
    sent = []
    table.system.request = lambda method, url, body=None, headers=None, timeout_s=0: (
        sent.append(headers) or Answer(200, b'{"result": "KoboldCpp", "version": "1.117.1 hunter2hunter2"}')
    )
    (process,) = koboldcpp.find(read_processes(table.system))
    subjects = koboldcpp.read(process, "")
    assert sent[0] == {"Authorization": "Bearer hunter2hunter2"}
    assert b"hunter2" not in dump_snapshot(Snapshot(unslow_version="0", subjects=subjects))
    shown = ["koboldcpp", "--password=KEY", "--hordekey", "KEY"]
    assert without_secrets(["koboldcpp", "--password=x", "--hordekey", "y"]) == shown


@pytest.mark.parametrize(
    ("change", "fragment", "again"),
    [
        (Knob.GPU_LAYERS.to(33), "--gpulayers 33", "koboldcpp m.gguf --gpulayers 33"),
        (Knob.GPU_LAYERS.to(None), "remove --gpulayers 10", "koboldcpp m.gguf"),
        (Knob.KV_CACHE_TYPE.to("q8_0"), "--quantkv 1", "koboldcpp --gpulayers 10 m.gguf --quantkv 1"),
        (Knob.FLASH_ATTENTION.to(False), "--noflashattention", "koboldcpp --gpulayers 10 m.gguf --noflashattention"),
        (Knob.FIT.to(True), "--autofit", "koboldcpp m.gguf --autofit"),
        (Knob.TENSOR_SPLIT.to("3,1"), "--tensor_split 3 1", "koboldcpp --gpulayers 10 m.gguf --tensor_split 3 1"),
        (
            Knob.LOAD_MODE.to("mmap+mlock"),
            "--usemmap --usemlock",
            "koboldcpp --gpulayers 10 m.gguf --usemmap --usemlock",
        ),
    ],
)
def test_each_knob_has_its_koboldcpp_flag(change, fragment, again):
    runtime = Runtime().with_facts(command=reported_fact(["koboldcpp", "--gpulayers", "10", "m.gguf"], "s"))
    assert one_change(koboldcpp, change, runtime) == [fragment, again]


def test_a_knob_without_a_koboldcpp_flag_gives_no_lines():
    assert one_change(koboldcpp, Knob.POWER.to(300), Runtime()) == []
    assert one_change(koboldcpp, Knob.THREADS.to(8), Runtime()) == ["--threads 8"]
    context = one_change(koboldcpp, Knob.CONTEXT_LENGTH.to(None), Runtime())
    assert context == ["--contextsize N"]
    assert facts().compute.batch.origin is Origin.ESTIMATED
