"""Exported data contains no user names and no secrets."""

import pytest

from unslow.facts.masking import keyless, mask_snapshot, masked_command, masked_environment, masked_text
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import reported_fact


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
        ("GPU[0]\t\t: Unique ID: 0x9246abc12345", "9246abc"),
        ('"Unique ID": "0x9246abc12345"', "9246abc"),
        ('"asic_serial": "0x92A6ABC12345"', "92A6"),
        ("        ASIC_SERIAL: 0x92A6ABC12345", "92A6"),
        ("      Serial Number (system): C02XG1J2JGH5", "C02XG1"),
        ("      Provisioning UDID: 00008103-000A12345678001E", "000A1234"),
        ("unique_id 11671234567890123456", "1167123"),
        ("link/ether 3c:7c:3f:aa:bb:cc brd", "3c:7c"),
        (r"C:\Users\John Smith\models\x.gguf", "Smith"),
        (r'"C:\\Users\\Carol\\x"', "Carol"),
        ("alice@desktop:~$ ollama ps", "alice"),
        ("POST http://81.2.69.142:8080/v1/completions", "81.2.69"),
        ("[GIN] 2026/01/01 - 10:00:00 | 200 |  1.2s |     81.2.69.142 | POST", "81.2.69"),
        ("http://[2a00:1450:4001:80b::200e]:8080/", "1450"),
    ],
)
def test_user_names_and_keys_are_masked(text, gone):
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
        "time to first token: roughly 3 s",
        "max_tokens: 512, token: 12345678",
        "requests are serial: one by one",
        "hf_transfer and hf_hub_download are installed",
        "cuDNN 8.9.7.29, driver 32.0.15.6094, from 8.9.2.26",
        "listening on 0.0.0.0:8000 and 127.0.0.1:11434",
        "http://192.168.1.20:11434 and http://10.0.0.2:8000",
        "api_key=None, --api-key --port 8000",
        "OLLAMA_KEEP_ALIVE=5m",
        "first token 350ms, per token 45.2ms, the token Qwen2.5-7B-Instruct",
        "the key is memory bandwidth",
        "print_info: EOS token        = 151645 '<|im_end|>'",
        "docker run --user 1000:1000 -p 8000:8000 ollama/ollama:0.6@sha256:12ab",
        "http://localhost:${PORT}/v1 http://127.0.0.1:8080",
        "--max-tokens 512 --tokenizer mistral",
    ],
)
def test_ordinary_text_is_not_masked(text):
    assert masked_text(text) == text


KEY = "cAnary9Key7"
IN_TEXT = [
    f"curl 'http://box/v1/models?api_key={KEY}&x=1'",
    f"https://box/v1/chat?key={KEY}",
    f"-H 'Authorization: Bearer {KEY}'",
    f"-H 'authorization: Basic {KEY}'",
    f"-H 'x-api-key: {KEY}'",
    f"llama-server --api-key {KEY} -m x.gguf",
    f"llama-server --api-key={KEY}",
    f"['llama-server', '--api-key', '{KEY}']",
    f"docker run -e OPENAI_API_KEY={KEY} -p 8000:8000 vllm/vllm-openai",
    f"export HUGGING_FACE_HUB_TOKEN='{KEY}'",
    f"HF_TOKEN=hf_{KEY}",
    f"Namespace(model='x', api_key=['{KEY}'])",
    f"non-default args: {{'api_key': '{KEY}'}}",
    f'{{"api_key": "{KEY}"}}',
    f'{{\\"api_key\\": \\"{KEY}\\"}}',
    f"API key: {KEY}",
    f"password: {KEY}",
    f'"password": "with a blank {KEY}"',
    f"http://me:{KEY}@box:8080/",
    f"my key is sk-proj-{KEY}",
    f"token: {KEY}",
    f"OLLAMA_HOST=http://bob:{KEY}@10.0.0.5:11434",
    f"OLLAMA_HOST=bob:{KEY}@10.0.0.5:11434",
    f"OLLAMA_ORIGINS=https://u:{KEY}@x",
    f"http://bob:p@{KEY}@box/",
    f"http://{KEY}@box/",
    f"http://bob:{KEY}",  # the rest cut off
    f"vllm serve m --api-key first {KEY} --enforce-eager",
    f"vllm serve m --api-key 'first' '{KEY}' --enforce-eager",
    f"vllm serve m --api-key first {KEY}",
    f"llama-server --api-key first,{KEY} -ngl 10",
    f"{{'api_key': ['first', '{KEY}']}}",
    f"koboldcpp --adminpassword {KEY} model.gguf",
    f"sglang --admin-api-key {KEY}",
    f"curl -u me:{KEY} http://box",
    f"curl --user 'me:{KEY}' http://box",
    f"curl -H 'Authorization: {KEY}' http://box",
    f"curl -H 'Authorization: Custom {KEY}' http://box",
    f"curl -H 'Cookie: session={KEY}' http://box",
    f"wget --http-password={KEY} http://box",
    f"wget --user=me --password={KEY} http://box",
    f"my password is {KEY} and it is slow",
    f"The password for the box is: {KEY}",
    f"use token {KEY}; it throttles",
    f"the key is {KEY}",
    f"secret = {KEY}",
    f"setx OLLAMA_API_KEY {KEY}",
    f"export LMSTUDIO_TOKEN {KEY}",
    f'$env:LMSTUDIO_TOKEN = "{KEY}"',
]


@pytest.mark.parametrize("text", IN_TEXT)
def test_a_key_is_masked_in_every_pasted_form(text):
    assert KEY not in masked_text(text)
    assert masked_text(masked_text(text)) == masked_text(text)


def test_a_key_is_masked_completely():
    assert masked_text(f"--api-key {KEY}")[:14] == "--api-key mask"


def test_secrets_and_prompts_on_a_command_line_are_masked():
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


@pytest.mark.parametrize(
    "words",
    [
        "vllm serve m --api-key first cAnary9Key7 --enforce-eager",
        "koboldcpp --adminpassword cAnary9Key7 --hordekey cAnary9Key7 m.gguf --x 1",
        "sglang --admin-api-key cAnary9Key7 --x 1",
        "a --use-token --api-key cAnary9Key7 --x 1",
        "llama-server --model-url https://u:cAnary9Key7@box/m.gguf --x 1",
    ],
)
def test_every_key_of_a_command_line_is_masked(words):
    shown = masked_command(words.split())
    assert KEY not in " ".join(shown)
    assert shown[-1] in ("--enforce-eager", "1")


def test_keyless_facts_lose_keys_and_keep_names():
    runtime = Runtime().with_facts(
        command=reported_fact(
            ["vllm", "serve", "/home/eve/m", "--api-key", "a", KEY, "--port", "1"], "/proc/1/cmdline"
        ),
        environment=reported_fact({"OLLAMA_HOST": f"http://me:{KEY}@box"}, "/proc/1/environ"),
    )
    snapshot = Snapshot(unslow_version="1", subjects=(Subject(runtime=runtime),))
    clean = keyless(snapshot)
    assert KEY not in dump_snapshot(clean).decode()
    shown = ["vllm", "serve", "/home/eve/m", "--api-key", "masked", "masked", "--port", "1"]
    assert clean.subjects[0].runtime.process.command.need() == shown
    assert keyless(clean) is clean


def test_secret_variables_are_masked():
    assert masked_environment({"HF_TOKEN": "x", "CUDA_VISIBLE_DEVICES": "0"}) == {
        "HF_TOKEN": "masked",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def test_a_snapshot_is_masked():
    runtime = Runtime().with_facts(
        command=reported_fact(["llama-server", "--api-key", "hush", "-m", "/home/eve/m.gguf"], "/proc/1/cmdline"),
        environment=reported_fact({"LLAMA_API_KEY": "hush", "LLAMA_ARG_MODEL": "/home/eve/m.gguf"}, "/proc/1/environ"),
    )
    model = Model(path=reported_fact("/home/eve/m.gguf", "-m"))
    text = dump_snapshot(
        mask_snapshot(Snapshot(unslow_version="1", subjects=(Subject(runtime=runtime, model=model),)))
    ).decode()
    assert "eve" not in text
    assert "hush" not in text
    assert "/home/user/m.gguf" in text
