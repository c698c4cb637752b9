"""Prompts, names, secrets and addresses as logs and configurations contain them; and what must stay."""

import time

import pytest

from unslow.facts.masking import masked_command, masked_text

SECRET = "cAnary9Key7x2Zq8"
ASKED = "zebra harvest"
NAME = "quentin"

SECRET_NAMES = """
aws_secret_access_key secret_key secretKey private_token privateToken bearer_token accessToken access_token
refresh_token refreshToken AccountKey SharedAccessKey SharedAccessSignature client_secret clientSecret auth_token
session_token aws_session_token oauth_token api_token bot_token deploy_token personal_access_token private_key
access_key access_key_id signing_key encryption_key account_key passphrase db_password redis_passwd hf_token hub_token
github_token gitlab_token security_token webhook_secret master_key ssh_key api_key apikey registry_token
""".split()  # noqa: SIM905 (a list of words)
IS = ("{}={}", "{} = {}", '"{}": "{}"', "{}: {}")

TOKENS = [
    f"npm_{SECRET * 3}",
    f"pypi-AgEIcHlwaS5vcmc{SECRET * 2}",
    f"tskey-auth-{SECRET}-abc",
    f"ya29.{SECRET}{SECRET}",
    f"ghp_{SECRET}",
    f"gho_{SECRET}",
    f"ghr_{SECRET}",
    f"github_pat_{SECRET}",
    f"glpat-{SECRET}",
    f"gldt-{SECRET}",
    f"xoxb-12-{SECRET}",
    f"xoxp-{SECRET}",
    f"xapp-1-{SECRET}",
    f"sk-proj-{SECRET}",
    f"sk-ant-api03-{SECRET}",
    f"sk_live_{SECRET}",
    f"hf_{SECRET}",
    f"nvapi-{SECRET}",
    f"gsk_{SECRET}",
    f"r8_{SECRET}",
    f"dckr_pat_{SECRET}",
    f"AIza{SECRET}{SECRET}",
    f"eyJhbGciOiJI.{SECRET}.{SECRET}",
    f"SG.{SECRET}{SECRET}.{SECRET}{SECRET}",
    f"hvs.{SECRET}{SECRET}",
    f"GOCSPX-{SECRET}",
    f"shpat_{SECRET}",
    f"dop_v1_{SECRET}",
    f"whsec_{SECRET}",
    f"1//0{SECRET}{SECRET}",
    f"123456789:AA{SECRET}{SECRET}{SECRET}",
    f"https://hooks.slack.com/services/T0/B0/{SECRET}",
    f"https://discord.com/api/webhooks/1/{SECRET}",
    f"https://b.s3.amazonaws.com/x?X-Amz-Signature={SECRET}&a=1",
    f"https://x/y?X-Amz-Credential={SECRET}%2F2026",
    f"https://x/y?sv=2&sig={SECRET}",
    f"PRIVATE-TOKEN: {SECRET}",
    f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl{SECRET}",
    f'"-----BEGIN PRIVATE KEY-----\\n{SECRET}\\n-----END PRIVATE KEY-----"',
    f"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1\n\n{SECRET}\n-----END EC PRIVATE KEY-----",  # noqa: E501
]

PROMPTS = [
    f'srv  log_server_r: request:  {{"prompt": "{ASKED}"}}',
    f'request: {{"messages":[{{"role":"user","content":"{ASKED}"}}]}}',
    f'{{"messages":[{{"role":"user","content":[{{"type":"text","text":"{ASKED}"}}]}}]}}',
    f'{{"prompt": ["first", "{ASKED}"], "n_predict": 8}}',
    f'{{"prompt": "say \\"{ASKED}\\" and more {ASKED}"}}',
    f'{{\\"prompt\\": \\"{ASKED}\\"}}',
    f'{{"prompt": "cut off {ASKED}',
    f'{{"input": "{ASKED}"}}',
    f'{{"system_prompt": "{ASKED}"}}',
    f'{{"inputs": "{ASKED}"}}',
    f'{{"choices":[{{"message":{{"content":"{ASKED}","reasoning_content":"{ASKED}"}}}}]}}',
    f'{{"choices":[{{"text":" {ASKED}"}}]}}',
    f'"arguments": "{{\\"city\\": \\"{ASKED}\\"}}"',
    f"{{'prompt': '{ASKED}'}}",
    f"{{'content': \"it's {ASKED}\"}}",
    f'time=2026-01-01T10:00:00Z level=DEBUG msg="chat request" images=0 prompt="<|im_start|>user\\n{ASKED}"',
    f'level=DEBUG msg="completion request" prompt="\\"{ASKED}\\" {ASKED}" format=""',
    f"INFO 01-01 10:00:00 logger.py:39] Received request cmpl-1-0: prompt: '{ASKED}', params: SamplingParams(n=1)",
    f"Received request cmpl-1: prompt: 'it's {ASKED}', params: SamplingParams(n=1), prompt_token_ids: [1, 2]",
    f"Received request chatcmpl-1: prompt: 'User: hello\n{ASKED}\n[INST] {ASKED}', params: SamplingParams(n=1)",
    f'Received request chatcmpl-1: prompt: "two\nlines {ASKED}"',
    f"DEBUG Request chatcmpl-9 details: prompt: '{ASKED}', prompt_token_ids: [3, 4], prompt_embeds shape: None.",
    f"Generated response chatcmpl-9: output: '{ASKED}', output_token_ids: [5], finish_reason: stop",
    f"Receive: obj=GenerateReqInput(rid='1', text='{ASKED}', input_ids=[1, 2], sampling_params={{}})",
    f"main: prompt: '{ASKED}'",
    f'formatted prompt: "{ASKED}"',
    f"prompt = '{ASKED}'",
    f"formatted_chat: 'a\n{ASKED}\n'",
    f'Input: {{"n": 1, "prompt": "{ASKED}"}}\nProcessing Prompt (5 / 5 tokens)',
    f"Output: {ASKED}\nUser: more {ASKED}\nCtxLimit:512/4096",
    f'llama-cli -m x.gguf -p "{ASKED}" -n 8',
    f"llama-cli --prompt '{ASKED}'",
    f'ollama run x --system-prompt="{ASKED}"',
]

NAMES = [
    f"/media/{NAME}/disk/x.gguf",
    f"/run/media/{NAME}/SSD/x.gguf",
    f"--slot-save-path /media/{NAME}/disk",
    f"/mnt/c/Users/{NAME}/x",
    f"/mnt/win/Users/{NAME}/AppData",
    f"/home/john {NAME}/x.gguf",
    f'"/home/john {NAME}"',
    f"/mnt/c/Users/John {NAME}/models/x",
    f"/var/home/{NAME}/x",
    f"/export/home/{NAME}/x",
    f"~{NAME}/models/x.gguf",
    rf"D:\Users\{NAME}\x",
    rf"C:\Users\John {NAME}\x.gguf",
    f"file:///home/{NAME}/x",
    f"/System/Volumes/Data/Users/{NAME}/x",
]

IPV4, IPV6 = "93.184.216.34", "2606:2800:220:1::248"
ADDRESSES = [
    f"srv  log_server_r: request: POST /completion {IPV4} 200",
    f"GET /v1/models?x=1 {IPV4} 404",
    f"GET /slots {IPV6} 200",
    f'[GIN] 2026/01/01 - 10:00:00 | 200 |  1.2s |  {IPV4} | POST     "/api/chat"',
    f'[GIN] 2026/01/01 - 10:00:00 | 200 |  1.2s | {IPV6} | POST     "/api/chat"',
    f'"--host", "{IPV4}"',
    f"--host {IPV4}",
    f"--host={IPV4}",
    f"OLLAMA_HOST={IPV4}",
    f'INFO:     {IPV4}:51234 - "POST /v1/x"',
    f"connection from {IPV4}",
    f"listening on {IPV4}",
    f"client {IPV4} disconnected",
    f"X-Forwarded-For: {IPV4}",
    f'{IPV4} - - [01/Jan/2026:10:00:00 +0000] "GET / HTTP/1.1" 200',
    f"remote_addr={IPV4}",
    f"http://{IPV4}/v1",
    f"X-Forwarded-For: 203.0.113.9, {IPV4}",
    f"http://[{IPV6}]:8080/",
    f"from {IPV6} port 22",
    "POST /x 203.0.113.7 200",
]


def _checked(text: str, *gone: str) -> None:
    shown = masked_text(text)
    assert not [word for word in gone if word in shown], shown
    assert masked_text(shown) == shown, "masking again changes nothing"


@pytest.mark.parametrize("form", IS)
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secrets_are_masked_by_their_names(name: str, form: str) -> None:
    _checked(form.format(name, SECRET), SECRET)


@pytest.mark.parametrize("text", TOKENS)
def test_secrets_are_masked_by_their_form(text: str) -> None:
    _checked(f"before {text} after", SECRET)


@pytest.mark.parametrize("text", PROMPTS)
def test_prompts_and_completions_are_masked(text: str) -> None:
    _checked(f"load: before\n{text}\nload: after", ASKED, ASKED.split()[1])
    assert masked_text(f"load: before\n{text}\nload: after").endswith("load: after"), "the log goes on"


@pytest.mark.parametrize("text", NAMES)
def test_user_names_in_paths_are_masked(text: str) -> None:
    _checked(text, NAME)


@pytest.mark.parametrize("text", ADDRESSES)
def test_public_ip_addresses_are_masked(text: str) -> None:
    _checked(text, IPV4, IPV6, "203.0.113")


def test_a_public_address_on_a_command_line_is_masked() -> None:
    assert masked_command(["x", "--host", IPV4, "--rpc", "10.0.0.2:50052"])[2:] == [
        "masked-ip",
        "--rpc",
        "10.0.0.2:50052",
    ]


STAY = [
    "srv  log_server_r: request: POST /completion 127.0.0.1 200",
    "POST /v1/chat/completions 192.168.1.7 200",
    '[GIN] 2026/01/01 - 10:00:00 | 200 |  1.2s |       127.0.0.1 | POST     "/api/chat"',
    "[GIN] 2026/01/01 - 10:00:00 | 200 |  1.2s |       ::1 | GET",
    "client 100.101.102.103 is in the tailnet",
    "driver version 32.0.15.6094",
    "cuDNN 8.9.7.29",
    "build 1.2.3.4",
    "libcudart.so.12.4.99.1",
    "v0.5.13.1",
    "ROCm 6.2.0.60200",
    "nvidia-smi 550.54.15, CUDA 12.4",
    "0000:01:00.0 VGA",
    "10:00:00 up 3 days",
    "fe80::1%eth0",
    "ggml::backend::cuda",
    'msg="completion request" images=0 prompt=2341 format=""',
    "prompt eval time = 12.3 ms / 5 tokens",
    '{"prompt": ""}',
    '{"prompt_n": 12, "prompt_ms": 3.5, "n_prompt_tokens": 5}',
    "slot update_slots: id 0 | prompt processing progress, n_past = 12",
    "slot launch_slot_: id 0 | task 1 | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 12",
    "Avg prompt throughput: 12.3 tokens/s, Avg generation throughput: 4.5 tokens/s",
    "'reasoning_parser': 'qwen3'",
    "Received request chatcmpl-1: params: SamplingParams(n=1, max_tokens=512)",
    "Content-Type: application/json",
    "print_info: BOS token = 1 '<s>'",
    '"bos_token": "<s>", "eos_token": "</s>"',
    "npm_config_cache=/tmp",
    "pypi-server is up",
    "general.name str = Llama 3.1 8B Instruct",
    "/media/cdrom/x",
    "/mnt/models/x.gguf",
    "/opt/users.txt",
    "~/models/x.gguf",
    "/run/user/1000/bus",
    "access: key not found",
    "tokenizer.ggml.pre str = llama-bpe",
    "max_tokens=512 first_token=0.3",
    "KV cache type k = 'f16'",
    "flash_attn = 1, kv_unified = true",
    "key = general.architecture",
    "the secret of speed is bandwidth",
    "unsloth/Qwen3-30B-A3B-GGUF:Q4_K_M",
    "sha256-6a0746a1ec1aef3e7ec53868f220ff6e389f6f8ef87a01d77c96807de94ca2aa",
    "llama_model_loader: - kv  5: general.license str = apache-2.0",
    "system_info: n_threads = 8 | AVX2 = 1",
    "-p 8080:8080",
    "docker run -p 11434:11434 ollama/ollama",
    "llama-bench -p 512 -n 128",
    "--prompt 512",
    'msg="inference compute" id=0 library=cuda',
    "ssh-keygen is installed",
    "eyJ",
    "GPU 0: NVIDIA GeForce RTX 4090",
    "time=2026-01-01T10:00:00.000Z level=INFO source=sched.go:1",
]


@pytest.mark.parametrize("text", STAY)
def test_ordinary_lines_stay(text: str) -> None:
    assert masked_text(text) == text


SEEDS = [
    "a",
    " ",
    "/",
    '"',
    "'",
    "1.",
    ":",
    "-",
    "\\",
    "\n",
    "prompt: '",
    '"prompt": "',
    "prompt=",
    "Received request x: prompt: ",
    "Output: ",
    "\nOutput: x",
    "/home/a ",
    "/media/a ",
    "GET /a ",
    "secret_key=",
    "-----BEGIN PRIVATE KEY-----",
    "2001:",
    "X-Y-",
    "~a",
    "host: 1.2.3.4, ",
    "aws_secret_",
    "eyJa",
    "xox",
    "prompt_token_ids: [1, ",
    '"text": [\'',
    '\\"prompt\\": \\"',
    "`",
    "_",
]


@pytest.mark.parametrize("seed", SEEDS)
def test_masking_time_is_linear_in_the_length(seed: str) -> None:
    def took_s(length: int) -> float:
        text, start_s = (seed * length)[:length], time.process_time()
        masked_text(text)
        return time.process_time() - start_s

    took_s(1000)
    short_s, long_s = min(took_s(4_000) for _ in range(2)), took_s(64_000)
    assert long_s < 16 * 5 * short_s + 0.2
