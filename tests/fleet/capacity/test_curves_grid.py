import pytest

from unslow.fleet.capacity.curves import LONGEST_WINDOW_S, MOST_PER_SERIES, MOST_POINTS, grid_of, read_curves
from unslow.fleet.member import Member, MemberGpu, Reading
from unslow.fleet.prometheus.answers import AnsweredCurves
from unslow.fleet.queries import Options

DAY_S = 86400.0


def members(number, scrapes=60.0, **more):
    seen = {"samples": Reading(scrapes, "t")}
    return [Member(key=f"h{n}", runtime="vLLM", window_s=900.0, engine=seen, **more) for n in range(number)]


class Silence:
    """A Prometheus that has nothing, or refuses."""

    now_s = 1e9

    def __init__(self, failure=""):
        self.failure, self.asked = failure, 0

    def curves(self, *_):
        """Nothing."""
        self.asked += 1
        return AnsweredCurves([], failure=self.failure)


@pytest.mark.parametrize("number", [1, 10, 1_000, 10_000])
def test_response_never_exceeds_the_point_limit(number):
    grid = grid_of(1e9, DAY_S, members(number))
    assert grid.points * number <= MOST_POINTS
    assert 12 <= grid.points <= MOST_PER_SERIES
    assert grid.step_s >= grid.window_s
    assert grid.end_s == pytest.approx(1e9)
    assert grid.points * grid.step_s == pytest.approx(DAY_S, rel=0.1)


def test_window_holds_a_few_scrapes_and_is_bounded():
    assert grid_of(1e9, DAY_S, members(1, scrapes=15.0)).window_s == 240.0
    assert grid_of(1e9, DAY_S, members(1, scrapes=900.0)).window_s == 15.0
    assert grid_of(1e9, DAY_S, members(1, scrapes=2.0)).window_s == LONGEST_WINDOW_S
    assert grid_of(1e9, DAY_S, members(1, scrapes=0.0)).window_s == 60.0
    assert grid_of(1e9, 60.0, members(1, scrapes=2.0)).points == 1


def test_thinning_is_stated_and_each_query_is_sent_once(wording):
    silence = Silence("too many samples")
    found = read_curves(silence, members(2_000), Options(), DAY_S, lambda *_: None)
    assert silence.asked == 7
    wording(found.statements[0].text, tells=("150", "60 s", "10%"))
    [like] = found.likes
    assert (like.instances, like.moments, like.gpus_each) == (2_000, (), None)
    assert like.without


def test_empty_fleet_has_no_groups():
    assert read_curves(Silence(), [], Options(), DAY_S, lambda *_: None).likes == []


def test_groups_share_runtime_model_and_devices():
    pair = tuple(MemberGpu(index=n, name="NVIDIA L4") for n in range(2))
    mixed = (MemberGpu(index=0, name="NVIDIA L4"), MemberGpu(index=1, name="NVIDIA T4"))
    fleet = [*members(2, gpus=pair), *members(1, gpus=pair, model="other"), *members(1, gpus=mixed), *members(1)]
    found = read_curves(Silence(), fleet, Options(), DAY_S, lambda *_: None).likes
    assert [(like.devices, like.model, like.instances, like.gpus_each) for like in found] == [
        ("2 x NVIDIA L4", "", 2, 2),
        ("2 x NVIDIA L4", "other", 1, 2),
        ("NVIDIA L4, NVIDIA T4", "", 1, 2),
        ("", "", 1, None),
    ]


def test_gpu_with_empty_memory_is_not_counted():
    full, empty = ({"vram_used_max_bytes": Reading(used, "t")} for used in (60e9, 5e8))
    cards = tuple(
        MemberGpu(index=n, name="NVIDIA L4", readings=held) for n, held in enumerate((full, empty, empty, empty))
    )
    (group,) = read_curves(Silence(), members(2, gpus=cards), Options(), DAY_S, lambda *_: None).likes
    assert (group.devices, group.gpus_each) == ("NVIDIA L4", 1)
