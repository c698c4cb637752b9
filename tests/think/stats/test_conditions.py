"""Settings by the path of their fact, and the conditions of the machine during a benchmark."""

import math
from pathlib import Path

from unslow.commands.diagnose.target import read_stored
from unslow.facts.machine import Cpu, Gpu, Load, Machine, Memory, System
from unslow.facts.model import Model
from unslow.facts.run import GpuTelemetry, GpuUnderLoad, PhaseTelemetry, Run, SamplerCost, Stat, Telemetry
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact, not_found, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.stats.conditions import conditions_of, settings_of

MACHINES = Path(__file__).parents[2] / "machines"


def known(value):
    return reported_fact(value, "test")


def stat(mean: float) -> Stat:
    return Stat(mean=mean, low=mean, high=mean, last=mean, samples=10)


def telemetry(*phases: PhaseTelemetry) -> Telemetry:
    cost = SamplerCost(seconds_per_sample=0.001, slowest_sample_s=0.002, cpus=0.01)
    return Telemetry(seconds=10, samples=100, asked_hz=10, got_hz=10, cost=cost, phases=phases)


def test_every_known_setting_has_its_path():
    gpu = Gpu(index=0, name=known("RTX 4090"), driver=known("575.64"), power_limit_w=known(450.0), ecc=known(False))
    case = Case(
        machine=Machine(
            system=System(kernel=known("6.8.0")), cpu=Cpu(governor=known("powersave")), gpus=known((gpu,))
        ),
        model=Model(quant=known("Q4_K_M"), weights_bytes=known(4_920_734_272), path=known("/home/me/a.gguf")),
        runtime=Runtime().with_facts(
            version=known("b9000"), threads=known(8), flash_attention=known(True), kv_type_k=known("q8_0"),
            tensor_split=known([0.5, 0.5]), speculative=known("/home/me/draft.gguf"), batch=not_found("no log"),
            embedded=True,
        ),
    )  # fmt: skip
    assert settings_of(CaseView(case)) == {
        "runtime.version": "b9000",
        "runtime.embedded": "on",
        "model.quant": "Q4_K_M",
        "model.weights_bytes": "4920734272",
        "runtime.tensor_split": "0.5, 0.5",
        "runtime.kv_type_k": "q8_0",
        "runtime.threads": "8",
        "runtime.flash_attention": "on",
        "runtime.speculative": "draft.gguf",
        "machine.system.kernel": "6.8.0",
        "machine.cpu.governor": "powersave",
        "machine.gpus.0.name": "RTX 4090",
        "machine.gpus.0.driver": "575.64",
        "machine.gpus.0.power_limit_w": "450",
        "machine.gpus.0.ecc": "off",
    }


def test_case_without_facts_has_no_settings():
    assert settings_of(CaseView(Case())) == {}


def test_long_values_are_cut():
    case = Case(runtime=Runtime().with_facts(tensor_overrides=known(["x" * 100] * 1000), grammar=known("g" * 10**6)))
    assert all(len(value) <= 120 for value in settings_of(CaseView(case)).values())


def test_recorded_machine_has_its_key_settings():
    (case,) = read_stored(str(MACHINES / "h200_llama_server_healthy_8b")).cases()
    settings = settings_of(CaseView(case))
    assert {"runtime.threads", "runtime.gpu_layers", "runtime.kv_type_k", "machine.gpus.0.driver"} <= settings.keys()
    assert settings["machine.gpus.0.name"] == "NVIDIA H200"


def test_conditions_come_from_decode_telemetry():
    gpu = GpuTelemetry(index=0, figures={"clock_hz": stat(1.98e9), "power_w": stat(480)}, reasons={"sw_power_cap": 0.5})
    decode = PhaseTelemetry(phase="decode", seconds=5, samples=50, gpus=(gpu,), host={"others_cpus": stat(0.2)})
    prefill = PhaseTelemetry(phase="prefill", seconds=1, samples=5, host={"others_cpus": stat(3.0)})
    assert conditions_of(telemetry(prefill, decode), Run(), Machine()) == {
        "others_cpus": 0.2,
        "gpu_clock_hz": 1.98e9,
        "gpu_power_w": 480.0,
        "gpu_reason_sw_power_cap": 0.5,
    }
    assert conditions_of(telemetry(prefill), Run(), Machine()) == {"others_cpus": 3.0}
    assert conditions_of(None, Run(), Machine()) == {}


def test_several_gpus_are_numbered():
    gpus = tuple(GpuTelemetry(index=n, figures={"clock_hz": stat(1e9 + n)}) for n in (0, 1))
    decode = PhaseTelemetry(phase="decode", seconds=5, samples=50, gpus=gpus)
    assert conditions_of(telemetry(decode), Run(), Machine()) == {"gpu_0_clock_hz": 1e9, "gpu_1_clock_hz": 1e9 + 1}


def test_run_measurements_win_over_a_single_reading():
    under = GpuUnderLoad(
        index=0, samples=5, clock_hz=measured_fact(1.5e9, "x"), temperature_max_c=measured_fact(80.0, "x")
    )
    run = Run(others_cpus=measured_fact(0.5, "x"), gpus=measured_fact((under,), "x"))
    machine = Machine(
        load=Load(busy_cpus=known(2.0)),
        memory=Memory(read_bytes_per_s=measured_fact(40e9, "x"), swap_used_bytes=known(0)),
        gpus=known((Gpu(index=0, vram_free_bytes=known(2**30), clock_hz=known(2e8)),)),
    )
    assert conditions_of(None, run, machine) == {
        "ram_read_bytes_per_s": 40e9,
        "swap_used_bytes": 0.0,
        "others_cpus": 0.5,
        "gpu_vram_free_bytes": 2.0**30,
        "gpu_clock_hz": 1.5e9,
        "gpu_temperature_c": 80.0,
    }


def test_invalid_amounts_are_left_out():
    host = {"a": stat(math.nan), "b": stat(-3.0), "c": stat(1e300), "d": stat(1.0)}
    decode = PhaseTelemetry(phase="decode", seconds=5, samples=50, host=host)
    assert conditions_of(telemetry(decode), Run(), Machine()) == {"d": 1.0}
