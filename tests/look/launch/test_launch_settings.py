"""A setting is replaced in every spelling, and nothing else is touched."""

import pytest

from unslow.facts.errors import UserError
from unslow.look.launch.command import can_set, on_loopback, variables_of, with_settings


@pytest.mark.parametrize(
    ("command", "settings", "expected"),
    [
        ("llama-server -m m.gguf", {"threads": 8}, "llama-server -m m.gguf -t 8"),
        ("llama-server -t 4 -m m.gguf", {"threads": 8}, "llama-server -m m.gguf -t 8"),
        ("llama-server --threads 4 -m m.gguf", {"threads": 8}, "llama-server -m m.gguf -t 8"),
        ("llama-server --threads=4 -m m.gguf -t 2", {"threads": 8}, "llama-server -m m.gguf -t 8"),
        ("llama-server -m m.gguf -tb 4 -t 2", {"threads": 8}, "llama-server -m m.gguf -tb 4 -t 8"),
        ("llama-server -m m.gguf -tb 4 -t 2", {"threads_batch": 8}, "llama-server -m m.gguf -t 2 -tb 8"),
        ("llama-server --batch_size 64 -m m -b=3", {"batch": 512}, "llama-server -m m -b 512"),
        ("llama-server -m m -ub 64 --ubatch-size=3", {"ubatch": 256}, "llama-server -m m -ub 256"),
        ("llama-server -m m --ctx-size 64 -np 4", {"context": 8192}, "llama-server -m m -np 4 -c 8192"),
        ("llama-server -m m --parallel 64", {"slots": 1}, "llama-server -m m -np 1"),
        ("taskset -c 0-3 llama-server -c 64 -m m", {"context": 99}, "taskset -c 0-3 llama-server -m m -c 99"),
        ("numactl -m 0 ./server -m m.gguf -t 1", {"threads": 2}, "numactl -m 0 ./server -m m.gguf -t 2"),
        ("/opt/llama serve -m m -t 1", {"threads": 2}, "/opt/llama serve -m m -t 2"),
        ("vllm serve a/b --max-model-len 5", {"context": 99}, "vllm serve a/b --max-model-len 99"),
        (
            "python -m vllm.entrypoints.openai.api_server --model x --max_num_batched_tokens=5",
            {"batch": 99, "slots": 2},
            "python -m vllm.entrypoints.openai.api_server --model x --max-num-batched-tokens 99 --max-num-seqs 2",
        ),
        (
            "python3 -m sglang.launch_server --model-path x --chunked-prefill-size 1",
            {"batch": 9},
            "python3 -m sglang.launch_server --model-path x --chunked-prefill-size 9",
        ),
        (
            "text-generation-launcher --model-id x --max-batch-prefill-tokens 7",
            {"batch": 9},
            "text-generation-launcher --model-id x --max-batch-prefill-tokens 9",
        ),
        ("mlx_lm.server --model x", {"batch": 64}, "mlx_lm.server --model x --prefill-step-size 64"),
        (
            "python koboldcpp.py m.gguf --blasbatchsize 64 -t 3",
            {"batch": 128, "threads": 4},
            "python koboldcpp.py m.gguf --blasbatchsize 128 --threads 4",
        ),
    ],
)
def test_settings_are_replaced_in_every_spelling(command, settings, expected):
    assert with_settings(command.split(), settings) == expected.split()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("llama-server --host 0.0.0.0 -m m --port=80", "llama-server -m m --host 127.0.0.1 --port 5005"),
        ("llama-server --host /run/x.sock -m m", "llama-server -m m --host 127.0.0.1 --port 5005"),
        ("vllm serve x --uds /run/x.sock", "vllm serve x --host 127.0.0.1 --port 5005"),
        ("text-generation-launcher -p 80 --hostname ::", "text-generation-launcher --hostname 127.0.0.1 --port 5005"),
    ],
)
def test_a_launched_server_always_listens_on_loopback(command, expected):
    assert on_loopback(command.split(), 5005) == expected.split()


def test_environment_variables_that_would_override_settings_are_listed():
    command = ["llama-server", "-m", "m"]
    assert variables_of(command, {"threads": 1, "port": 2}) == ["LLAMA_ARG_THREADS", "LLAMA_ARG_PORT"]


def test_a_setting_without_a_flag_is_a_user_error(wording):
    with pytest.raises(UserError) as caught:
        with_settings(["vllm", "serve", "x"], {"threads": 2})
    wording(str(caught.value))
    assert "batch" in caught.value.hint
    assert not can_set(["vllm", "serve", "x"], "threads")
    assert can_set(["llama-server"], "threads")


def test_settings_of_an_unknown_program_are_a_user_error(wording):
    with pytest.raises(UserError) as caught:
        with_settings(["./run.sh", "--threads", "3"], {"threads": 2})
    wording(str(caught.value))


def test_keys_of_an_unknown_program_are_masked():
    with pytest.raises(UserError) as caught:
        with_settings(["mysrv", "-m", "x", "--api-key", "opensesame", "--port=1"], {"threads": 2})
    assert "opensesame" not in caught.value.message
    assert "mysrv -m x --api-key masked --port=1" in caught.value.message
