"""Small fleets, each with a label `scenario`: every way in which labels join, fold or contradict."""

import time

from tests.fleet.told_series import WINDOW_S, Told, dcgm, growing, level, node, vllm

NAME, OLD_NAME = "chat-7d9f8b6c5d-x2x7k", "chat-6c5d7d9f8b-k7x2x"
POD = {"job": "vllm", "instance": "10.0.0.7:8000", "namespace": "llm", "pod": NAME, "container": "vllm"}
HOST = {"job": "vllm", "instance": "gpu-01:8000"}
DCGM = {"job": "dcgm", "instance": "10.0.9.1:9400", "Hostname": "gpu-01"}
NODE = {"job": "node", "instance": "10.0.0.1:9100"}
KSM = {"job": "ksm", "instance": "10.0.8.8:8080", "namespace": "monitoring", "pod": "ksm-0"}


def kube(pod, image, *, before=False, **labels):
    exported = {**KSM, "exported_namespace": "llm", "exported_pod": pod, **labels}
    yield Told("kube_pod_info", {**exported, "node": "gpu-01", "host_ip": "10.0.0.1"}, level(1), before)
    for container, text in (("vllm", image), ("proxy", "envoy:v1.30.0")):
        yield Told("kube_pod_container_info", {**exported, "container": container, "image": text}, level(1), before)


def in_kubernetes():
    yield from vllm(POD)
    workload = {"exported_namespace": "llm", "exported_pod": NAME, "namespace": "gpu", "pod": "dcgm-abcde"}
    yield from dcgm({**DCGM, **workload}, 0, lambda ago: 0x24 if ago > WINDOW_S / 2 else 0x1)
    yield from dcgm({**DCGM, **workload, "exported_pod": "another"}, 1)
    yield from node(NODE, "gpu-01")
    yield from kube(NAME, "docker.io/vllm/vllm-openai:v0.10.1")
    yield from vllm({**POD, "instance": "10.0.0.3:8000", "pod": OLD_NAME}, gap_s=0.01, before=True)
    yield from kube(OLD_NAME, "docker.io/vllm/vllm-openai:v0.9.2", before=True)
    limited = {"job": "kubelet", "instance": "10.0.0.1:10250", "namespace": "llm", "pod": NAME, "container": "vllm"}
    yield Told("container_spec_cpu_period", limited, level(100_000))
    yield Told("container_spec_cpu_quota", limited, level(400_000))
    yield Told("container_spec_cpu_quota", {**limited, "pod": "somebody-else"}, level(100_000))
    yield Told("container_spec_cpu_period", {**limited, "pod": "somebody-else"}, level(100_000))


def sharing(**gpu_ids):
    for port in ("8000", "8001"):
        yield from vllm(
            {**HOST, "instance": f"gpu-01:{port}", **({"gpu_ids": gpu_ids[f"at_{port}"]} if gpu_ids else {})}
        )
    yield from dcgm(DCGM, 0)
    yield from dcgm(DCGM, 1)
    yield from node({**NODE, "instance": "gpu-01:9100"}, "gpu-01")


def falling(ago):
    """Two targets in one series: what one counted, then what the other did."""
    return (1000.0 if int(ago / 30) % 2 else 500_000.0) - ago


def restarted(ago):
    return 100.0 * (1_000_000 - ago) if ago > 600 else 100.0 * (600 - ago)


def went_down():
    """Its series end, and every scrape since then fails."""
    for one in vllm(HOST):
        ended = (lambda ago: float(ago > 400)) if one.name == "up" else None
        yield one._replace(value=ended or (lambda ago, v=one.value: v(ago) if ago > 400 else None))


def two_clusters():
    for cluster, gap_s in (("east", 0.01), ("west", 0.03)):
        yield from vllm({**POD, "cluster": cluster}, gap_s=gap_s)
        gpu = {"cluster": cluster, "namespace": "llm", "pod": NAME, "Hostname": f"{cluster}-gpu"}
        yield from dcgm({"job": "dcgm", "instance": "10.0.9.1:9400", **gpu})
        yield from own_words({**POD, "job": "unslow", "instance": "10.0.0.7:9470", "cluster": cluster}, cluster)
        yield from vllm({**POD, "pod": OLD_NAME, "cluster": cluster}, gap_s=2 * gap_s, before=True)
        was = {"east": "v0.9.2", "west": "v0.8.5"}[cluster]
        yield from kube(OLD_NAME, f"vllm/vllm-openai:{was}", before=True, cluster=cluster)
        yield from kube(NAME, "vllm/vllm-openai:v0.10.1", cluster=cluster)


def own_words(target, cluster):
    """What the exporter says that is beside an engine of port 8000: slow in the east, and long ago in the west."""
    own = {**target, "subject": "vLLM:8000"}
    verdict, ago = ("slow", 60.0) if cluster == "east" else ("normal", 6000.0)
    yield Told("unslow_subject_info", {**own, "runtime": "vLLM", "port": "8000"}, level(1))
    yield Told("unslow_verdict", {**own, "verdict": verdict}, level(1))
    yield Told("unslow_look_timestamp_seconds", target, lambda _: time.time() - ago)


def with_replaced(told, replaced):
    return [one._replace(value=replaced[one.name]) if one.name in replaced else one for one in told]


def sglang():
    for dp in "01":
        for tp in "01":
            own = {"job": "sglang", "instance": "gpu-02:30000", "model_name": "qwen", "tp_rank": tp, "dp_rank": dp}
            yield Told("sglang:num_running_reqs", own, level(3))
            for priority, running in (("0", 1), ("5", 2)):  # the same three again, by their priority
                yield Told("sglang:num_running_reqs", {**own, "priority": priority}, level(running))
            yield Told("sglang:token_usage", own, level(0.2 if dp == "0" else 0.4))
    tokens = {"job": "sglang", "instance": "gpu-02:30000", "model_name": "qwen"}
    for streamed, per_s in (("true", 40.0), ("false", 10.0)):
        yield Told("sglang:generation_tokens_total", {**tokens, "is_streaming": streamed}, growing(per_s))
    for kind, per_s in (("prompt", 90.0), ("uncached_prompt", 60.0), ("generation", 45.0)):
        yield Told(f"sglang:{kind}_tokens_histogram_sum", tokens, growing(per_s))
        yield Told(f"sglang:{kind}_tokens_histogram_count", tokens, growing(0.3))


RESTING = {"DCGM_FI_DEV_GPU_UTIL": level(3.0), "DCGM_FI_DEV_SM_CLOCK": level(300.0)}


def old_vllm():
    own = {**HOST, "model_name": "llama"}
    yield Told("vllm:num_requests_running", own, level(1))
    yield Told("vllm:gpu_cache_usage_perc", own, level(0.25))
    yield Told("vllm:time_per_output_token_seconds_sum", own, growing(2.0))
    yield Told("vllm:time_per_output_token_seconds_count", own, growing(100.0))


def llama_cpp(target):
    yield Told("llamacpp:requests_processing", target, level(1))
    yield Told("llamacpp:tokens_predicted_total", target, growing(40.0))
    yield Told("llamacpp:tokens_predicted_seconds_total", target, growing(0.8))


def other_gpus():
    yield from llama_cpp({"job": "llama", "instance": "box:8080", "model": "qwen"})
    smi = {"job": "smi", "instance": "box:9835", "uuid": "aaaa"}
    yield Told("nvidia_smi_gpu_info", {**smi, "name": "NVIDIA L4", "driver_version": "580.1", "index": "0"}, level(1))
    yield Told("nvidia_smi_memory_total_bytes", smi, level(24e9))
    yield Told("nvidia_smi_clocks_event_reasons_active", smi, level(0x80))
    yield from llama_cpp({"job": "llama", "instance": "red:8080"})
    amd = {"job": "amd", "instance": "red:5000", "gpu_id": "0", "serial_number": "s1", "card_model": "MI300X"}
    yield Told("gpu_total_vram", amd, level(196_592))
    for index in "012":
        yield Told("gpu_clock", {**amd, "clock_type": "system", "clock_index": index}, level(1000.0 + int(index)))
    own = {"job": "unslow", "instance": "red:9470", "subject": "llama.cpp:8080"}
    info = {"runtime": "llama.cpp", "port": "8080", "version": "b6000", "model": "gemma", "quant": "Q4_K_M"}
    yield Told("unslow_subject_info", {**own, **info}, level(1))
    yield Told("unslow_subject_info", {**own, **info, "subject": "llama.cpp:9999", "port": "9999"}, level(1))
    for verdict in ("slow", "normal"):
        yield Told("unslow_verdict", {**own, "verdict": verdict}, level(float(verdict == "slow")))
    cause = {**own, "cause": "weights_spill_to_ram", "phase": "decode"}
    yield Told("unslow_finding", cause, lambda ago: 1.0 if ago > WINDOW_S / 2 else 0.0)
    for per in ("token", "request"):
        costs = {**own, "cause": cause["cause"], "per": per}
        yield Told("unslow_finding_cost_seconds", costs, level(0.02 if per == "token" else 4.0))
    for bound, value in (("low", 40.0), ("mid", 50.0), ("high", 60.0)):
        yield Told("unslow_expected_decode_tokens_per_second", {**own, "bound": bound}, level(value))


SCENARIOS = {
    "kubernetes": list(in_kubernetes()),
    "given_to_others": [*vllm(POD), *kube(NAME, "vllm:v0.10.1"), *dcgm({**DCGM, "exported_pod": "another"})],
    "sharing": list(sharing()),
    "shared_and_told": list(sharing(at_8000="1", at_8001="0")),
    "alone": [*vllm(HOST), *dcgm(DCGM, 0), *dcgm(DCGM, 1)],
    "replicas": [one for r in "ab" for one in vllm({**HOST, "prometheus_replica": r})],
    "two_jobs": [one for job in ("a", "b") for one in vllm({**HOST, "job": job})],
    "gateway": [one for job in "ab" for one in vllm({**HOST, "job": job}, model=f"model-{job}")],
    "data_parallel": [*vllm(HOST), *(one for one in vllm(HOST, engine="1") if one.name != "up")],  # one target
    "falling": with_replaced(vllm(HOST), {"vllm:generation_tokens_total": falling}),
    "restarted": with_replaced(vllm(HOST), {"vllm:generation_tokens_total": restarted}),
    "gone": [one._replace(value=lambda ago, v=one.value: v(ago) if ago > 400 else None) for one in vllm(HOST)],
    "went_down": list(went_down()),
    "half": with_replaced(vllm(HOST), {"up": lambda ago: float(ago > WINDOW_S / 2)}),
    "clusters": list(two_clusters()),
    "sglang": list(sglang()),
    "old_vllm": list(old_vllm()),
    "nameless": [*llama_cpp({"job": "l", "instance": "a:1"}), *llama_cpp({"job": "l", "instance": "b:1"})],
    "others": list(other_gpus()),
    "resting": [*vllm(HOST), *with_replaced(dcgm(DCGM, 0), RESTING)],
    "was_there": [*vllm(HOST), *vllm({**HOST, "instance": "gpu-09:8000"}, before=True)],
}  # fmt: skip
