"""The versions and the workloads of pods, by images and names."""

import pytest

from unslow.fleet.pods import version_of, workload


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.10.1", "0.10.1"),
        ("registry:5000/vllm:0.9.2.post1@sha256:abc", "0.9.2.post1"),
        ("vllm/vllm-openai:latest", ""),
        ("vllm/vllm-openai", ""),
        ("envoy:v1.30.0", ""),
    ],
)
def test_runtime_image_tag_is_the_version(image, version):
    assert version_of({"main": image, "proxy": "envoy:v1.29.0"}, "vLLM") == version


def test_custom_image_counts_for_a_known_container():
    images = {"server": "registry/chat:1.4.2", "proxy": "envoy:v1.29.0"}
    assert version_of(images, "vLLM", "server") == "1.4.2"
    assert version_of(images, "vLLM") == ""
    assert version_of({"a": "vllm:v0.9.0", "b": "vllm:v0.10.0"}, "vLLM") == ""


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ("chat-7d9f8b6c5d-x2x7k", "chat"),
        ("chat-0", "chat"),
        ("llama-8b-7d9f8b6c5d-x2x7k", "llama-8b"),
        ("chat", "chat"),
    ],
)
def test_workload_is_the_pod_name_without_generated_parts(pod, name):
    assert workload(pod) == name
