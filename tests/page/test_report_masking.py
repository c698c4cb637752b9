"""A masked view contains no personal data."""

import msgspec
from tests.cases import gpu_case, r, with_facts

from unslow.commands.diagnose.look import LookResult
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import GIB
from unslow.page.build import Sources, view_of
from unslow.page.report import masked_view
from unslow.page.view import View
from unslow.think.judge.judge import diagnose

SECRETS = ("anna", "sk-abcdefgh12345678", "anna-desktop", "tell nobody")


def telling() -> Case:
    """A machine whose facts name its owner wherever they can."""
    gpu: Gpu = gpu_case().machine.gpus.need()[0]
    stranger = GpuProcess(pid=7, name=r("/home/anna/games/doom"), vram_bytes=r(12 * GIB))
    command = [
        "/home/anna/bin/llama-server",
        "-m",
        "/home/anna/m.gguf",
        "--api-key",
        "sk-abcdefgh12345678",
        "-sys",
        "tell nobody",
    ]
    facts = {
        "machine.gpus": r((msgspec.structs.replace(gpu, processes=r([stranger])),)),
        "runtime.process.command": r(command),
        "runtime.process.url": r("http://anna-desktop.lan:8080"),
        "model.path": r("/home/anna/m.gguf"),
        "model.name": r("/home/anna/m.gguf"),
    }
    return with_facts(gpu_case(layers_on_gpu=10, free_gib=2.0), facts)


def seen(case: Case) -> tuple[View, LookResult]:
    subject = Subject(runtime=case.runtime, model=case.model, run=case.run)
    snapshot = Snapshot(unslow_version="1", machine=case.machine, subjects=(subject,))
    looked = LookResult(snapshot, (("measured at http://anna-desktop.lan:8080 by anna@anna-desktop:~",),))
    return view_of(diagnose(snapshot), Sources(snapshot)), looked


def test_masked_view_contains_no_user_key_prompt_or_host():
    view, looked = seen(telling())
    before, after = msgspec.json.encode(view).decode(), msgspec.json.encode(masked_view(view, looked)).decode()
    assert "anna" in before
    assert [secret for secret in SECRETS if secret in after] == []
    assert "masked-host" in after


def test_masking_keeps_speeds_curves_and_findings():
    view, looked = seen(telling())
    masked = masked_view(view, looked)
    assert masked.masked
    assert not view.masked
    assert masked.subjects[0].speeds == view.subjects[0].speeds
    assert masked.subjects[0].depth == view.subjects[0].depth
    assert [f.cause for f in masked.report.subjects[0].findings] == [f.cause for f in view.report.subjects[0].findings]


def test_view_is_masked_without_its_snapshot_too():
    view, _ = seen(telling())
    assert "/home/anna" not in msgspec.json.encode(masked_view(view)).decode()


def test_masking_twice_is_a_no_op_and_loopback_urls_are_kept():
    view, looked = seen(with_facts(telling(), {"runtime.process.url": r("http://127.0.0.1:8080")}))
    masked = masked_view(view, looked)
    assert masked_view(masked, looked) is masked
    assert masked.report.subjects[0].url == "http://127.0.0.1:8080"


def test_masked_view_contains_no_name_of_this_user_or_machine(monkeypatch):
    monkeypatch.setenv("HOME", "/data/berta")
    monkeypatch.setenv("LOGNAME", "carla")
    monkeypatch.setattr("socket.gethostname", lambda: "dora-pc.house")
    command = ["llama-server", "-m", "/srv/carla/m.gguf", "--host", "emil-box", "--ctx-size", "4096"]
    facts = {
        "runtime.process.command": r(command),
        "model.path": r("/srv/carla/m.gguf"),
        "model.name": r("/data/berta/m.gguf"),
    }
    view, looked = seen(with_facts(telling(), facts))
    report = msgspec.structs.replace(
        view.report.subjects[0], summary="on dora-pc at /data/berta; --host emil-box; --host 0.0.0.0"
    )
    view = msgspec.structs.replace(view, report=msgspec.structs.replace(view.report, subjects=(report,)))
    for masked in (masked_view(view), masked_view(view, looked)):
        text = msgspec.json.encode(masked).decode()
        assert [name for name in ("berta", "carla", "dora", "emil") if name in text] == []
    assert (
        "on masked-host at /data/user; --host masked-host; --host 0.0.0.0"
        in msgspec.json.encode(masked_view(view)).decode()
    )
