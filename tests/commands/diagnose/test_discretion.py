"""A canary key through every path: it may be sent in a header, and is shown nowhere."""

import json

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import Looking
from unslow.commands.diagnose.discretion import Discretion, userinfo
from unslow.commands.diagnose.look import look_at
from unslow.commands.diagnose.target import check_url, collect
from unslow.commands.diagnose.visit import Measuring
from unslow.facts.errors import UserError
from unslow.facts.masking import mask_snapshot
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import reported_fact
from unslow.look.system import Answer, Line, LookError
from unslow.look.system.recorded import Recorder
from unslow.show.console import render_json
from unslow.think.judge.judge import diagnose

KEY = "sk-canary-5f3a9c17"
URL, FAR = "http://127.0.0.1:8080", "http://gpu.example:8080"
PROPS = {
    "default_generation_settings": {"n_ctx": 4096},
    "total_slots": 1,
    "model_path": f"/m/{KEY}.gguf",
    "model_alias": f"you sent Bearer {KEY}",
    "build_info": f"b9999-{KEY}",
}
TIMINGS = {"timings": {"prompt_n": 40, "prompt_ms": 100.0, "predicted_n": 65, "predicted_ms": 1000.0}}
ANSWERS = {
    "/health": {"status": "ok", "key": KEY},
    "/props": PROPS,
    "/v1/models": {"data": [{"id": KEY, "meta": {"size": 1000, "n_params": 10}}]},
    "/slots": [{"id": 0, "n_ctx": 4096, "note": KEY}],
    "/metrics": f"# {KEY}\nllamacpp:requests_processing 0\n",
}


def server(url: str, stream=None, **changes) -> dict:
    bodies = {path: body if isinstance(body, str) else json.dumps(body) for path, body in ANSWERS.items()}
    http = {f"GET {url}{path}": Answer(200, body.encode()) for path, body in bodies.items()}
    lines = [Line(0.1, f'data: {{"content": "{KEY}"}}'), Line(1.0, f"data: {json.dumps(TIMINGS)}")]
    return {"http": http | changes, "streams": {f"{url}/completion": lines if stream is None else stream}}


def everything(snapshot: Snapshot, progress: Quiet) -> str:
    report = with_fix_commands(diagnose(snapshot), snapshot)
    shown = render_json(report, width=100, color=False, everything=True)
    texts = [dump_snapshot(snapshot).decode(), dump_snapshot(mask_snapshot(snapshot)).decode(), shown, repr(snapshot)]
    return "\n".join([*texts, *progress.said])


def process(command: str, environment: str = "") -> FakeSystem:
    files = {
        "/proc/7/comm": "llama-server",
        "/proc/7/cmdline": command.replace(" ", "\0") + "\0",
        "/proc/7/environ": environment,
        "/proc/7/status": "PPid:\t1\n",
    }
    asks = {"secret /proc/7/root/srv/keys": f"{KEY}\n"}
    links = {"/proc/7/cwd": "/srv"}
    return FakeSystem(files=files, folders={"/proc": ["7"]}, links=links, asks=asks, **server(URL))


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (f"llama-server --api-key {KEY} -c 4096", ""),
        (f"llama-server --api-key={KEY}", ""),
        (f"llama-server --api_key {KEY},{KEY}2", ""),
        (f"llama-server -hft {KEY} --api-key {KEY}", ""),
        ("llama-server", f"LLAMA_API_KEY={KEY}\0HF_TOKEN={KEY}\0LLAMA_ARG_CTX_SIZE=4096"),
        ("llama-server --api-key-file keys", ""),
        ("llama-server --api-key-file /srv/keys", ""),
    ],
)
def test_api_key_of_a_server_command_is_never_shown(command, environment):
    progress = Quiet()
    system = process(command, environment)
    snapshot = look_at(Measuring(system, Looking(), progress), None).snapshot
    assert snapshot.subjects[0].run.decode_tokens_per_s.need() > 0
    assert KEY not in everything(snapshot, progress)


@pytest.mark.parametrize(
    ("name", "command", "environment"),
    [
        ("vllm", f"vllm serve m --api-key first {KEY} --enforce-eager", ""),
        ("python3", f"python3 -m sglang.launch_server --model-path m --api-key a --admin-api-key {KEY}", ""),
        ("koboldcpp", f"koboldcpp --adminpassword {KEY} m.gguf --gpulayers 3", ""),
        ("ollama", "ollama serve", f"OLLAMA_HOST=http://bob:{KEY}@127.0.0.1:11434\0OLLAMA_ORIGINS=https://u:{KEY}@x"),
        ("llama-server", f"llama-server --model-url https://u:{KEY}@hub/m.gguf", ""),
    ],
)
def test_keys_in_command_lines_and_environments_are_never_shown(name, command, environment, tmp_path):
    files = {
        "/proc/7/comm": name,
        "/proc/7/cmdline": command.replace(" ", "\0") + "\0",
        "/proc/7/environ": environment,
        "/proc/7/status": "PPid:\t1\n",
    }
    recorder = Recorder(FakeSystem(files=files, folders={"/proc": ["7"]}), tmp_path)
    snapshot = collect(recorder, bandwidth=False)
    recorder.close()
    assert snapshot.subjects
    assert KEY not in dump_snapshot(mask_snapshot(snapshot)).decode(), "what `collect` writes"
    assert KEY not in everything(Discretion.about(None, None).facts(snapshot), Quiet()), "what `diagnose` shows"
    assert KEY not in "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_api_key_given_for_a_remote_server_is_never_shown():
    progress = Quiet()
    request = Looking(target=FAR, api_key=KEY)
    snapshot = look_at(Measuring(FakeSystem(**server(FAR)), request, progress), FAR).snapshot
    assert snapshot.subjects[0].run.decode_tokens_per_s.need() > 0
    assert KEY not in everything(snapshot, progress)


@pytest.mark.parametrize(
    "stream", [LookError(f"answered 401: bad key {KEY}"), [Line(0.1, f'data: {{"error": "bad key {KEY}"}}')]]
)
def test_api_key_in_a_stream_error_is_never_shown(stream):
    progress = Quiet()
    request = Looking(target=FAR, api_key=KEY)
    seen = look_at(Measuring(FakeSystem(**server(FAR, stream)), request, progress), FAR).snapshot
    assert KEY not in everything(seen, progress)


def test_api_key_echoed_by_a_refusing_server_is_never_shown():
    refusing = {f"GET {FAR}{path}": LookError(f"{FAR} broke off after {KEY}") for path in ANSWERS}
    with pytest.raises(UserError) as caught:
        look_at(Measuring(FakeSystem(**server(FAR, **refusing)), Looking(target=FAR, api_key=KEY), Quiet()), FAR)
    assert KEY not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    "url", [f"http://me:{KEY}@127.0.0.1:8080/v1", f"http://{KEY}@gpu.example", f"http://{KEY}:x@h:1/p"]
)
def test_userinfo_of_a_url_is_removed(url):
    assert KEY not in check_url(url)
    assert KEY in userinfo(url)
    discretion = Discretion.about(None, url)
    with pytest.raises(UserError) as caught, discretion.errors():
        raise UserError(f"{url}: no", f"try {url}")
    assert KEY not in caught.value.message + caught.value.hint
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", [f"ftp://me:{KEY}@h", f"http://me:{KEY}@[::1", f"http://me:{KEY}@h:99999999"])
def test_invalid_url_is_refused_without_its_password(url):
    discretion = Discretion.about(None, url)
    with pytest.raises(UserError) as caught, discretion.errors():
        check_url(url)
    assert KEY not in caught.value.message + caught.value.hint


def test_discretion_masks_keys_in_facts_and_progress():
    discretion = Discretion.about(KEY, None)
    snapshot = Snapshot(
        unslow_version="0",
        subjects=(Subject(runtime=Runtime().with_facts(command=reported_fact(["x", f"--k={KEY}"], "argv"))),),
    )
    clean = discretion.facts(snapshot)
    assert clean.subjects[0].runtime.process.command.need() == ["x", "--k=KEY"]
    shown = Quiet()
    discretion.progress(shown).say(f"sent {KEY}")
    assert shown.said == ["sent KEY"]


def test_without_a_key_facts_and_progress_are_unchanged():
    snapshot = Snapshot(unslow_version="0")
    assert Discretion.about(None, None).facts(snapshot) is snapshot
    shown = Quiet()
    assert Discretion.about("ollama", "http://h").progress(shown) is shown
