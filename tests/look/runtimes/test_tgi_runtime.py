"""text-generation-inference answers written after its source; not recorded."""

import pytest
from doubles import FakeSystem
from lab.replay import serve
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import Unknown
from unslow.look.processes import read_processes
from unslow.look.runtimes import tgi
from unslow.look.system import Answer
from unslow.look.system.live import LiveSystem

COMMAND = "text-generation-launcher --model-id org/m --quantize awq --port 80 --api-key sk-secret-1"


def test_tgi_answers_are_read_over_http():
    with serve("tgi") as url:
        (subject,) = tgi.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (runtime.name.need(), runtime.version.need(), runtime.context.length.need()) == ("TGI", "3.3.4", 4096)
    assert (runtime.cache.capacity_tokens.need(), runtime.scheduling.max_sequences.need()) == (16000, 128)
    assert (runtime.compute.weights_type.need(), runtime.placement.device_used.need()) == ("float16", "cuda")
    assert (runtime.scheduling.busy_slots.need(), runtime.scheduling.deferred_requests.need()) == (4, 3)
    assert runtime.history.decode_tokens_per_s.need() == pytest.approx(20)
    assert subject.run.queue_s.need() == pytest.approx(2)
    assert "docker logs" in runtime.compute.eager.how_to_get
    assert subject.model.name.need() == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("other", ["llama_cpp", "mlx_lm", "koboldcpp", "lm_studio", "vllm", "sglang"])
def test_other_servers_are_not_tgi(other):
    with serve(other) as url:
        assert tgi.read_url(LiveSystem(), url, "") is None


@pytest.mark.parametrize("body", [b'{"model_id": "m"}', b'{"model_id": 5, "max_concurrent_requests": 1}', b"[]", b"x"])
def test_a_foreign_info_answer_is_not_tgi(body):
    assert tgi.read_url(FakeSystem(http={"GET http://h/info": Answer(200, body)}), "http://h", "") is None


def test_a_tgi_process_is_read():
    files = {
        "/proc/10/comm": "text-generation\n",
        "/proc/10/cmdline": "\0".join([*COMMAND.split(), ""]),
        "/proc/10/environ": "",
        "/proc/10/status": "PPid:\t1\n",
    }
    (process,) = tgi.find(read_processes(FakeSystem(files=files, folders={"/proc": ["10"]})))
    (subject,) = tgi.read(process, "")
    assert (subject.runtime.compute.quantization.need(), subject.runtime.process.url.need()) == (
        "awq",
        "http://127.0.0.1:80",
    )
    assert subject.model.name.need() == "org/m"
    assert isinstance(subject.runtime.scheduling.busy_slots, Unknown)
    assert "secret-1" not in str(subject)


def test_each_knob_has_its_tgi_flag():
    assert one_change(tgi, Knob.CONTEXT_LENGTH.to(4096), Runtime()) == ["--max-total-tokens 4096"]
    for knob in Knob:
        for value in (None, True, 4, "x"):
            assert all(one_change(tgi, knob.to(value), Runtime())), knob
