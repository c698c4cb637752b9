"""The MLX-LM server: its command line, and how it differs from similar servers."""

import json

import pytest
from doubles import FakeSystem
from lab.replay import serve
from proc_table import ProcTable
from written import one_change

from unslow.commands.diagnose.permission import pushes_out
from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import NOT_LOOKED, Absence, Origin, Unknown, reported_fact
from unslow.look.bench.trials.server_work import read_logged_prompts, read_work
from unslow.look.processes import read_processes
from unslow.look.requests import Target
from unslow.look.runtimes import mlx_lm
from unslow.look.runtimes.mlx_lm import FLAGS, arguments_of, requested_settings
from unslow.look.system import Answer, LookError
from unslow.look.system.live import LiveSystem

URL = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "command",
    [
        ["/venv/bin/python3", "/venv/bin/mlx_lm.server", "--model", "m"],
        ["python", "-m", "mlx_lm", "server", "--model", "m"],
        ["python", "-m", "mlx_lm.server", "--model", "m"],
        ["/venv/bin/python", "/venv/lib/python3.12/site-packages/mlx_lm/server.py", "--model", "m"],
    ],
)
def test_every_way_to_start_mlx_lm_server_is_recognised(command):
    assert list(arguments_of(command)) == ["--model", "m"]
    assert arguments_of(["python", "-m", "mlx_lm", "generate"]) == ()


def test_an_mlx_lm_server_is_found_among_processes():
    table = (
        ProcTable().add(10, "python3.12", ["python3", "/venv/bin/mlx_lm.server"]).add(11, "python3", ["python3", "x"])
    )
    assert [p.pid for p in mlx_lm.find(read_processes(table.system))] == [10]


def test_mlx_lm_flags_give_settings():
    words = ["--decode-concurrency", "4", "--prefill-step-size=512", "--prompt-cache-size", "0", "--draft-model", "d",
             "--num-draft-tokens", "5", "--prompt-cache-bytes", "2GB"]  # fmt: skip
    runtime = requested_settings(FLAGS.settings(["", *words], {}))
    assert (runtime.scheduling.max_sequences.value, runtime.compute.batch.value, runtime.cache.prompt_cache.value) == (
        1,  # a draft rules batches out
        512,
        False,
    )
    many = requested_settings(FLAGS.settings(["", "--decode-concurrency", "4"], {}))
    assert many.scheduling.max_sequences.value == 4
    assert requested_settings(FLAGS.settings(["", "--kv-bits", "8"], {})).scheduling.max_sequences.value == 1
    assert (runtime.sampling.speculative.value, runtime.sampling.draft_tokens.value, runtime.cache.ram_bytes.value) == (
        "d",
        5,
        2 * 10**9,
    )
    plain = requested_settings({})
    assert (plain.scheduling.max_sequences.value, plain.scheduling.max_sequences.origin) == (32, Origin.ESTIMATED)
    strange = requested_settings(FLAGS.settings(["", "--prompt-cache-bytes", "all", "--decode-concurrency", "-3"], {}))
    assert isinstance(strange.cache.ram_bytes, Unknown)
    assert isinstance(strange.scheduling.max_sequences, Unknown)


def test_an_mlx_lm_process_with_a_hub_name_is_read():
    line = ["python3", "/venv/bin/mlx_lm.server", "--model", "mlx-community/Qwen3-8B-4bit", "--port", "8085"]
    table = ProcTable().add(10, "python3", line)
    (process,) = mlx_lm.find(read_processes(table.system))
    (subject,) = mlx_lm.read(process, "")
    assert (subject.runtime.name.value, subject.runtime.process.url.value) == ("MLX-LM", "http://127.0.0.1:8085")
    assert subject.model.name.value == "mlx-community/Qwen3-8B-4bit"
    assert subject.runtime.state.absence is Absence.FAILED


def test_an_mlx_lm_model_folder_keeps_its_name_as_given():
    table = ProcTable().add(10, "python3", ["python3", "-m", "mlx_lm.server", "--model", "/models/mine"])
    (process,) = mlx_lm.find(read_processes(table.system))
    (subject,) = mlx_lm.read(process, "")
    assert (subject.model.name.value, subject.model.path.value) == ("/models/mine", "/models/mine")


def test_mlx_lm_answers_are_parsed():
    with serve("mlx_lm") as url:
        (subject,) = mlx_lm.read_url(LiveSystem(), url, "")
    assert (subject.runtime.name.value, subject.runtime.name.origin) == ("MLX-LM", Origin.ESTIMATED)
    assert subject.model.name.value == "mlx-community/Qwen3-8B-4bit"
    assert "mlx_lm.generate" in subject.runtime.version.how_to_get


@pytest.mark.parametrize("other", ["llama_cpp", "koboldcpp", "lm_studio", "vllm"])
def test_other_servers_are_not_mlx_lm(other):
    with serve(other) as url:
        assert mlx_lm.read_url(LiveSystem(), url, "") is None


def test_several_downloaded_mlx_models_leave_the_loaded_one_unknown(wording):
    listed = {"object": "list", "data": [{"id": name, "object": "model", "created": 1} for name in ("a", "b")]}
    system = FakeSystem()
    system.http = {
        f"GET {URL}/health": Answer(200, b'{"status": "ok"}'),
        f"GET {URL}/props": Answer(404, b"Not Found"),
        f"GET {URL}/v1/models": Answer(200, json.dumps(listed).encode()),
    }
    (subject,) = mlx_lm.read_url(system, URL, "")
    wording(subject.model.name.why)
    system.http[f"GET {URL}/props"] = Answer(404, b'{"detail":"Not Found"}')
    assert mlx_lm.read_url(system, URL, "") is None


def test_an_unreachable_mlx_lm_server_is_a_look_error():
    with pytest.raises(LookError):
        mlx_lm.read_url(FakeSystem(), URL, "")


def test_each_knob_has_its_mlx_lm_flag():
    runtime = Runtime().with_facts(
        command=reported_fact(["mlx_lm.server", "--decode-concurrency", "32", "--model", "m"], "s")
    )
    again = "mlx_lm.server --model m --decode-concurrency 1"
    assert one_change(mlx_lm, Knob.PARALLEL.to(1), runtime) == ["--decode-concurrency 1", again]
    quantized = Runtime().with_facts(command=reported_fact(["mlx_lm.server", "--kv-bits", "8"], "s"))
    assert one_change(mlx_lm, Knob.PARALLEL.to(4), quantized)[-1] == "mlx_lm.server --decode-concurrency 4"
    assert one_change(mlx_lm, Knob.SPECULATIVE.to(None), Runtime()) == ["remove --draft-model"]
    assert one_change(mlx_lm, Knob.PROMPT_CACHE.to(True), Runtime()) == ["--prompt-cache-size 10"]
    assert one_change(mlx_lm, Knob.GPU_LAYERS.to(3), Runtime()) == []


def served(models: bytes, log: str) -> ProcTable:
    """A server of a local model, with its log in a file."""
    table = ProcTable().add(10, "python3", ["python3", "-m", "mlx_lm.server", "--model", "/models/mine"])
    table.system.links |= {"/proc/10/fd/1": "/tmp/mlx.log", "/proc/10/fd/2": "/tmp/mlx.log"}
    table.system.files["/proc/10/root/tmp/mlx.log"] = log
    table.system.http = {
        f"GET {URL}/health": Answer(200, b'{"status": "ok"}'),
        f"GET {URL}/props": Answer(404, b"Not Found"),
        f"GET {URL}/v1/models": Answer(200, models),
    }
    return table


def test_an_mlx_lm_server_whose_model_list_fails_is_read_by_health_and_command():
    """Version 0.32.2 without a Hugging Face cache ends this answer after its headers."""
    (process,) = mlx_lm.find(read_processes(served(b"", "").system))
    (subject,) = mlx_lm.read(process, "")
    assert (subject.runtime.state.need(), subject.model.name.need()) == ("loaded", "/models/mine")


def test_an_mlx_lm_server_without_requests_has_no_prompt_cache_to_evict():
    started = "2026-01-01 10:00:00,000 - INFO - Starting httpd at 127.0.0.1 on port 8080...\n"
    asked = '127.0.0.1 - - [01/Jan/2026 10:00:01] "POST /v1/completions HTTP/1.1" 200 -\n'
    for log, refused in ((started, False), (started + asked, True)):
        (process,) = mlx_lm.find(read_processes(served(b"", log).system))
        (subject,) = mlx_lm.read(process, "")
        assert isinstance(pushes_out(subject.runtime), Unknown) is refused


@pytest.mark.parametrize(("kept", "refused"), [(1, False), (2, False), (3, True), (10, True)])
def test_a_measurement_fits_into_the_free_places_of_the_prompt_cache(kept, refused):
    log = f'127.0.0.1 - - "POST /v1/completions HTTP/1.1" 200 -\nINFO - Prompt Cache: {kept} sequences, 0.02 GB\n'
    (process,) = mlx_lm.find(read_processes(served(b"", log).system))
    (subject,) = mlx_lm.read(process, "")
    assert subject.runtime.cache.prompts_free.need() == 10 - kept
    assert isinstance(pushes_out(subject.runtime), Unknown) is refused


def test_a_prompt_cache_that_is_off_cannot_lose_anything():
    runtime = requested_settings(FLAGS.settings(["", "--prompt-cache-size", "0"], {}))
    assert pushes_out(runtime.with_facts(name=reported_fact("MLX-LM", "x"))) is None


def test_prompts_that_were_computed_are_read_from_the_log():
    progress = "2026-11-18 21:27:49,{} - INFO - Prompt processing progress: {}\n"
    steps = ("0/290", "289/290", "290/290", "11/12", "12/12", "100/298")
    log = '"POST /v1/completions HTTP/1.1" 200 -\n' + "".join(
        progress.format(585 + i, step) for i, step in enumerate(steps)
    )
    (process,) = mlx_lm.find(read_processes(served(b"", log).system))
    (subject,) = mlx_lm.read(process, "")
    assert subject.run.logged_prompts.value == (290, 12)
    assert read_logged_prompts(process.system, Target(URL, pid=10, runtime="MLX-LM")).value == (290, 12)
    assert read_logged_prompts(process.system, Target(URL, pid=10)) == NOT_LOOKED


CONNECTIONS = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 0100007F:1F90 0100007F:D001 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0
   2: 0100007F:1F90 0100007F:D002 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0
   3: 0100007F:1F90 0100007F:D003 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0
   4: 0100007F:D001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 5 1 0
   5: 0100007F:1F90 0100007F:D004 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   6: 0100007F:1F91 0100007F:D005 01 00000000:00000000 00:00000000 00000000     0        0 6 1 0
"""
"""Three clients of port 8080; what else is there listens, has ended, is the clients' own end, or another server's."""


def test_the_requests_of_an_mlx_lm_server_are_its_connections():
    table = ProcTable().add(10, "python3", ["python3", "-m", "mlx_lm.server", "--decode-concurrency", "2"])
    table.system.files["/proc/10/net/tcp"] = CONNECTIONS
    (process,) = mlx_lm.find(read_processes(table.system))
    assert mlx_lm.read_requests(process, URL)[:2] == (2, 1)
    work = read_work(table.system, Target(URL, pid=10, runtime="MLX-LM"))
    assert (work.running, work.waiting) == (2, 1)
    (subject,) = mlx_lm.read(process, "")
    scheduling = subject.runtime.scheduling
    assert (scheduling.running_requests.value, scheduling.deferred_requests.value) == (2, 1)


def test_an_mlx_lm_server_whose_connections_are_hidden_does_not_tell_its_requests():
    (process,) = mlx_lm.find(read_processes(ProcTable().add(10, "python3", ["mlx_lm.server"]).system))
    with pytest.raises(LookError):
        mlx_lm.read_requests(process, URL)
    with pytest.raises(LookError):
        read_work(process.system, Target(URL, runtime="MLX-LM"))
