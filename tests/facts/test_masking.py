"""What leaves the machine names nobody."""

import pytest

from unslow.facts.masking import masked, masked_command, masked_environment, masked_text
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import reported


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("/home/alice/models/x.gguf", "alice"),
        ("/Users/bob.smith/x", "bob.smith"),
        ("gguf /proc/35/root/home/alice.smith/x.gguf", "alice"),
        ("/mnt/home/alice/x", "alice"),
        ("--alias bob@example.com", "bob"),
        (r"C:\Users\Carol\x", "Carol"),
        ("c:/users/dave/x", "dave"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "12345678"),
        ("token hf_abcdefghijklmnop", "abcdefghijklmnop"),
        ("Authorization: Bearer eyJ.abc.def", "eyJ"),
        ("api_key=s3cret", "s3cret"),
        ("init_listene: api_keys: ****cret", "cret"),
        ("LLAMA_API_KEY=s3cret", "s3cret"),
        ('{"api_key": "s3cret"}', "s3cret"),
        ("http://user:pass@host/", "pass"),
        ("Serial Number : 1320922012345", "1320922012345"),
    ],
)
def test_names_and_keys_are_gone(text, gone):
    assert gone not in masked_text(text)
    assert masked_text(masked_text(text)) == masked_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "/usr/share/models/x.gguf",
        "NVIDIA H200",
        "0000:00:06.0",
        "b10586-b21e4de",
        '{"timings_per_token":true,"eos_token":"</s>"}',
    ],
)
def test_what_names_nobody_stays(text):
    assert masked_text(text) == text


def test_secrets_and_prompts_on_a_command_line():
    words = [
        "llama-server",
        "--api-key",
        "abc",
        "--hf_token",
        "x1",
        "-m",
        "/home/eve/m.gguf",
        "--api-key=def",
        "-p",
        "Dear diary",
    ]
    assert masked_command(words) == [
        *("llama-server", "--api-key", "masked", "--hf_token", "masked"),
        *("-m", "/home/user/m.gguf", "--api-key=masked", "-p", "masked"),
    ]


def test_secret_variables():
    assert masked_environment({"HF_TOKEN": "x", "CUDA_VISIBLE_DEVICES": "0"}) == {
        "HF_TOKEN": "masked",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def test_a_whole_snapshot():
    runtime = Runtime(
        command=reported(["llama-server", "--api-key", "hush", "-m", "/home/eve/m.gguf"], "/proc/1/cmdline"),
        environment=reported({"LLAMA_API_KEY": "hush", "LLAMA_ARG_MODEL": "/home/eve/m.gguf"}, "/proc/1/environ"),
    )
    model = Model(path=reported("/home/eve/m.gguf", "-m"))
    text = dump_snapshot(
        masked(Snapshot(unslow_version="1", subjects=(Subject(runtime=runtime, model=model),)))
    ).decode()
    assert "eve" not in text
    assert "hush" not in text
    assert "/home/user/m.gguf" in text
