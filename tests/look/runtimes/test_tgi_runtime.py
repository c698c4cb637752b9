"""text-generation-inference by answers that were written after its source: none of it was run here."""

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


def test_over_real_http():
    with serve("tgi") as url:
        (subject,) = tgi.read_url(LiveSystem(), url, "")
    runtime = subject.runtime
    assert (runtime.name.need(), runtime.version.need(), runtime.context_length.need()) == ("TGI", "3.3.4", 4096)
    assert (runtime.kv_capacity_tokens.need(), runtime.max_sequences.need()) == (16000, 128)
    assert (runtime.weights_type.need(), runtime.device_used.need()) == ("float16", "cuda")
    assert (runtime.busy_slots.need(), runtime.deferred_requests.need()) == (4, 3)
    assert runtime.decode_tokens_per_s.need() == pytest.approx(20)
    assert subject.run.queue_s.need() == pytest.approx(2)
    assert "docker logs" in runtime.eager.how_to_get
    assert subject.model.name.need() == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("other", ["llama_cpp", "mlx_lm", "koboldcpp", "lm_studio", "vllm", "sglang"])
def test_other_servers_are_not_tgi(other):
    with serve(other) as url:
        assert tgi.read_url(LiveSystem(), url, "") is None


@pytest.mark.parametrize("body", [b'{"model_id": "m"}', b'{"model_id": 5, "max_concurrent_requests": 1}', b"[]", b"x"])
def test_another_info_is_not_tgi(body):
    assert tgi.read_url(FakeSystem(http={"GET http://h/info": Answer(200, body)}), "http://h", "") is None


def test_by_its_process():
    files = {
        "/proc/10/comm": "text-generation\n",
        "/proc/10/cmdline": "\0".join([*COMMAND.split(), ""]),
        "/proc/10/environ": "",
        "/proc/10/status": "PPid:\t1\n",
    }
    (process,) = tgi.find(read_processes(FakeSystem(files=files, folders={"/proc": ["10"]})))
    (subject,) = tgi.read(process, "")
    assert (subject.runtime.quantization.need(), subject.runtime.url.need()) == ("awq", "http://127.0.0.1:80")
    assert subject.model.name.need() == "org/m"
    assert isinstance(subject.runtime.busy_slots, Unknown)
    assert "secret-1" not in str(subject)


def test_knobs_in_its_words():
    assert one_change(tgi, Knob.CONTEXT_LENGTH.to(4096), Runtime()) == ["--max-total-tokens 4096"]
    for knob in Knob:
        for value in (None, True, 4, "x"):
            assert all(one_change(tgi, knob.to(value), Runtime())), knob
