"""Any pasted text: what is understood, what must never be shown, and what hostile input must not do."""

import json
import random
import zlib
from collections.abc import Iterator

import pytest

from unslow.commands._formats import FORMATS, render
from unslow.commands.triage.pasted_text import NOTHING, TriageResult, triage
from unslow.facts.errors import UserError
from unslow.facts.masking import mask_snapshot
from unslow.facts.snapshot import dump_snapshot, parse_snapshot

REPORT = """\
Ollama 0.6.2 on Ubuntu 24.04, RTX 3090, Ryzen 7 5800X, 32GB DDR4-3200
Model: Llama 3.1 8B Q4_K_M
After updating to 0.6.2 it is slow: about 7 tok/s, was 31.
"""
LOG = """\
load_backend: loaded CPU backend from libggml-cpu-haswell.so
llama_model_loader: loaded meta data with 33 key-value pairs
load_tensors: offloading 20 repeating layers to GPU
load_tensors: offloaded 20/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  2500.00 MiB
load_tensors:   CPU_Mapped model buffer size =  1900.00 MiB
"""


def read(text: str | bytes, chunk: int = 1 << 20) -> TriageResult:
    data = text.encode() if isinstance(text, str) else text
    return triage((data[at : at + chunk] for at in range(0, len(data), chunk)), "paste")


def outputs(triaged: TriageResult) -> Iterator[str]:
    """Everything that is made of a text: the report in every format, in full, and the snapshot."""
    for form in FORMATS:
        yield render(triaged.report, form, width=100, color=False, everything=True)
    yield dump_snapshot(mask_snapshot(triaged.snapshot)).decode()


def test_prose_report_is_understood_with_line_numbers():
    report, snapshot = read(REPORT)
    (subject,) = report.subjects
    known = {item.fact: item for item in subject.known}
    assert known["runtime.version"].value == "0.6.2"
    assert known["machine.gpus"].value == "RTX 3090"
    assert known["run.decode_tokens_per_s"].value == 7
    assert known["run.decode_tokens_per_s"].source == "paste:3"
    assert {item.origin for item in subject.known} <= {"told", "estimated"}
    assert snapshot.machine.memory.kind.need() == "DDR4-3200"
    assert subject.ask_next
    assert "3 lines" in subject.notes[-1]


def test_prose_and_log_in_one_text_are_combined():
    report, _ = read(f"{REPORT}\n```\n{LOG}```\nThanks!")
    (subject,) = report.subjects
    known = {item.fact: item for item in subject.known}
    assert (known["runtime.placement.gpu_layers"].value, known["runtime.placement.layers"].value) == (20, 33)
    assert known["runtime.placement.gpu_layers"].origin == "reported"
    assert known["machine.gpus"].origin == "told"
    assert "recognized as llama_cpp" in subject.notes[-1]


def test_program_output_wins_over_prose():
    report, _ = read(f"I think 33/33 layers are on the GPU.\n{LOG}")
    known = {item.fact: item.value for item in report.subjects[0].known}
    assert known["runtime.placement.gpu_layers"] == 20


def test_order_of_the_text_does_not_matter():
    forwards = {item.fact: item.value for item in read(REPORT + LOG).report.subjects[0].known}
    backwards = {item.fact: item.value for item in read(LOG + REPORT).report.subjects[0].known}
    assert forwards == backwards


def test_chunk_size_does_not_matter():
    whole, parts = read(REPORT + LOG), read(REPORT + LOG, chunk=7)
    assert whole.report == parts.report


def test_snapshot_of_a_text_round_trips():
    _, snapshot = read(REPORT + LOG)
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot


def test_text_without_evidence_gives_cannot_tell():
    report, _ = read("It is slow, please help.")
    assert report.subjects[0].verdict == "cannot_tell"
    assert report.subjects[0].findings == ()


def test_utf_16_with_crlf_is_read():
    (subject,) = read(REPORT.replace("\n", "\r\n").encode("utf-16")).report.subjects
    assert {item.fact: item.value for item in subject.known}["machine.gpus"] == "RTX 3090"


def test_empty_text_is_refused():
    with pytest.raises(UserError, match="paste is empty"):
        read("")


KEY = "cAnary9Key7Secret"
PASTED_KEYS = [
    f"docker run --gpus all -e OPENAI_API_KEY={KEY} -p 11434:11434 ollama/ollama",
    f"HF_TOKEN=hf_{KEY} llama-server --api-key {KEY} -m model.gguf -ngl 20",
    f"llama-server --api-key={KEY} -ngl 20",
    f"$ curl http://127.0.0.1:8080/v1/models?api_key={KEY} -H 'Authorization: Bearer {KEY}'",
    f"The GPU is not used, my API key: {KEY} works",
    f"7 tok/s, was 31 with the token sk-{KEY}",
    f"INFO 03-01 10:00:00 [api_server.py:1] args: Namespace(model='x', api_key=['{KEY}'])",
    f"(APIServer pid=1) INFO 03-01 10:00:00 [utils.py:233] non-default args: {{'api_key': '{KEY}', 'model': 'x'}}",
    f"[2026-03-01 10:00:00] server_args=ServerArgs(model_path='x', api_key='{KEY}', tp_size=1)",
    f'time=2026-03-01T10:00:00Z level=ERROR source=x.go:1 msg="failed" error="key api_key={KEY}"',
    f'time=2026-03-01T10:00:00Z level=INFO msg="server config" env="map[OLLAMA_API_KEY:{KEY} OLLAMA_HOST:http://0:1]"',
    f"0.00.001.000 W srv    init: api_keys: {KEY}",
    f"0.00.001.000 E load_model: error loading model, password={KEY}",
    f'Environment="OLLAMA_API_KEY={KEY}"',
    f'{{"api_key": "{KEY}", "model": "x", "error": "CUDA out of memory"}}',
    f"ERROR 03-01 10:00:00 [core.py:1] RuntimeError: Authorization: Bearer {KEY} CUDA out of memory",
    f"Model: https://user:{KEY}@huggingface.co/x/y-8b-q4_k_m.gguf",
]  # fmt: skip


@pytest.mark.parametrize("line", PASTED_KEYS)
def test_pasted_keys_are_never_shown(line):
    for text in outputs(read(f"{REPORT}{line}\n{LOG}")):
        assert KEY not in text
        assert KEY[:12] not in text, "nor a part of it"


CUT = [
    "The GPU is not used, {}",
    "7 tok/s, was 31 {}",
    "0.00.001.000 E load_model: error loading model, {}",
    'time=2026-03-01T10:00:00Z level=ERROR source=x.go:1 msg="{}" error=x',
    "ERROR 03-01 10:00:00 [core.py:1] RuntimeError: CUDA out of memory {}",
    "WARNING 03-01 10:00:00 [config.py:1] {}",
]


@pytest.mark.parametrize("start", [100, 118, 134, 150, 190, 210, 230, 290, 390])
def test_cut_text_shows_no_part_of_a_key(start):
    token = "sk-" + KEY
    lines = [line.replace("{}", "x" * (start - line.index("{}")) + f" {token}") for line in CUT]
    for text in outputs(read("\n".join(lines))):
        assert token[:6] not in text


def test_user_names_are_never_shown():
    line = r"The GPU is not used by C:\Users\Carol Jones\ollama.exe and /home/alice/x, alice@desktop:~$"
    for text in outputs(read(f"{REPORT}{line}\n")):
        assert not [name for name in ("Carol", "Jones", "alice") if name in text]


CONTROLS = {
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "colour": "\x1b[31;5m",
    "clear": "\x1b[2J\x1b[H",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d0;title\x9c",
    "bell and backspace": "\x07\x08\x7f",
    "direction": "\u202e\u2066\u200f\u061c",
    "nul": "\x00",
}
SPOILED = [
    "Model: {}evil{}-8b-q4_k_m.gguf",
    "The GPU is not{} used{}",
    "7 tok/s,{} was 31{} after the update",
    "{}RTX 3090{} and Ryzen {}7 5800X",
    "0.00.001.000 W llama_{}context: warning{} of some kind",
    "llama_model_loader: - kv   2: general.name str = Evil{}Name{}",
    'time=2026-03-01T10:00:00Z level=WARN source=x.go:1 msg="trouble{} here{}"',
    "ERROR 03-01 10:00:00 [core.py:1] RuntimeError: CUDA{} out of memory{}",
    "llama-server -m /models/ev{}il.gguf -ngl 20",
]


@pytest.mark.parametrize("control", CONTROLS)
def test_control_characters_are_never_shown(control):
    mark = CONTROLS[control]
    spoiled = "\n".join(line.replace("{}", mark) for line in SPOILED)
    for text in outputs(read(f"{REPORT}{spoiled}\n{LOG}")):
        forbidden = {c for c in mark if not c.isprintable() or c in "\u202e\u2066\u200f\u061c"}
        assert not forbidden & set(text)


def test_invalid_bytes_are_shown_as_printable_text():
    for data in (b"\xff\xfe\xfd" * 1000, b"\x9b2J\x80 RTX 3090 is slow\n"):
        for text in outputs(read(data)):
            assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 50,
        random.Random(1).randbytes(100_000),
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00\x01\x00\x00\x00\x30\x6d\x00\x00",
        b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(3000),
        zlib.compress(REPORT.encode() * 3),
        b"GGUF\x03\x00\x00\x00" + b"".join(len(word).to_bytes(8, "little") + word for word in [b"token"] * 500),
    ],
)
def test_binary_data_is_refused_and_not_quoted(data, wording):
    with pytest.raises(UserError) as caught:
        read(data)
    wording(str(caught.value))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1251", "shift-jis", "utf-8"])
def test_text_in_any_encoding_is_read(encoding):
    text = "медленно 遅い" if encoding.startswith("utf") else {"cp1251": "медленно", "shift-jis": "遅い"}[encoding]
    triaged = read(f"{text} RTX 3090, ollama 0.6.2, 3 tok/s\n".encode(encoding) * 3)
    assert triaged.snapshot.machine.gpus.need()[0].name.need() == "RTX 3090"


def test_log_with_null_bytes_is_text():
    assert read(bytes(50_000) + REPORT.encode()).snapshot.subjects[0].run.decode_tokens_per_s.need() == 7


@pytest.mark.parametrize(
    "text",
    [
        "Beef stew\n2 lb beef, 4 carrots. Cook on low for 8 hours. Serve 6. Temperature 90 C.",
        "OpenAI API: Rate limit reached, requests are throttled. gpt-4o takes 30 seconds.",
        "Nov 12 10:00:02 web postgres[99]: LOG:  duration: 5123 ms  statement: SELECT * FROM x\nGET /v1/models 200",
        '#include "llama.h"\nint main(void) {\n  int n = 99; // -ngl 99\n  puts("offloaded 0/33 layers to GPU");\n}\n',
    ],
)
def test_unrelated_text_gets_one_sentence(text):
    triaged = read(text)
    (subject,) = triaged.report.subjects
    assert (subject.verdict, subject.summary) == ("cannot_tell", NOTHING)
    lists = (subject.findings, subject.cannot_tell, subject.ruled_out, subject.ask_next, subject.known)
    assert not any(lists)
    said = [render(triaged.report, form, width=100, color=False) for form in FORMATS if form != "openmetrics"]
    assert all("not about a model on local hardware" in shown for shown in said)


@pytest.mark.parametrize("text", ["my local LLM is slow", "the model answers slowly", "why is my GPU at 0 %"])
def test_short_complaint_gets_questions(text):
    assert read(text).report.subjects[0].ask_next


HOSTILE = {
    "nuls": b"\0" * 100_000,
    "one endless line": b"gpu not used 7 tok/s " * 50_000,
    "one endless number": b"1" * 1_000_000,
    "many lines": b"slow gpu 3 tok/s\n" * 2_000,
    "empty lines": b"\n" * 5_000,
    "carriage returns": b"reading 10%\r" * 20_000,
    "deep JSON": b'{"a":' * 50_000,
    "deep lists": b"[" * 200_000,
    "numbers out of bounds": (
        b"top_k 999999 num_ctx 99999999 KV cache usage 9999999 % acceptance 9999999 %\n"
        b"9999999 tb gguf, swap 9999999 tb, --cpus 9999999, loading takes 9999999 minutes\n"
        b"RTX 3090 with gpu temperature 999 c, limit 999 w, 999999MiB / 999999MiB, 999999 tok/s, 0 ms/token\n"
        b"load_tensors: offloaded 99999999999999999999/33 layers to GPU\n"
        b"eval time = nan ms / -5 tokens (-inf ms per token, 1e999 tokens per second)\n"
    ),
    "half a character": "ü".encode()[:1] + b" RTX 3090",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_still_gives_a_report(name):
    triaged = read(HOSTILE[name], chunk=65_536)
    assert len(triaged.report.subjects) >= 1
    assert parse_snapshot(dump_snapshot(triaged.snapshot)) == triaged.snapshot
    for text in outputs(triaged):
        assert len(text) < 300_000
    json.loads(render(triaged.report, "json", width=80, color=False))
