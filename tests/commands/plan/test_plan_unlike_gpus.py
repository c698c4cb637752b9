"""Plans for GPUs of different kinds in one machine."""

from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import OptionShown, PlanReport

MODEL = "qwen2.5-14b"


def plan(*devices: str) -> PlanReport:
    request = PlanRequest(model=MODEL, devices=devices, ram_bytes=64 * 2**30, quant="Q8_0")
    return make_plan(LiveSystem(), request._replace(given=frozenset({"devices", "ram_bytes", "quant"})))


def best(report: PlanReport) -> OptionShown:
    assert report.recommended is not None, report.reason
    return report.options[report.recommended]


def tokens_per_s(report: PlanReport) -> float:
    speed = best(report).speed
    assert speed
    return speed.decode_tokens_per_s.mid


def test_mixed_gpus_keep_their_memory_and_the_fastest_comes_first(wording) -> None:
    both, alone = plan("RTX 4060", "RTX 3060"), plan("RTX 3060")
    wording(both.machine, tells=("RTX 3060", "RTX 4060", "64 GiB"))  # whose memory is the faster one
    assert [device.capacity_bytes >> 30 for device in best(both).devices] == [12, 8]
    assert tokens_per_s(both) > 1.5 * tokens_per_s(alone)
    wording(both.notes)
    assert not any("counted from" in note for note in alone.notes)


def test_mixed_vendors_give_cannot_tell() -> None:
    for others in (("RTX 3060", "RX 7900 XTX"), ("RTX 3060", "Ryzen 9 7950X"), ("RTX 3060", "M3 Max 64GB")):
        report = plan(*others)
        assert report.verdict == "cannot_tell"
        assert "mixed devices" in report.reason
