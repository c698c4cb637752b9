import msgspec
import pytest
from doubles import FakeSystem
from plans import option, plan, written

from unslow.commands.apply.prepare import changes_of, chosen_option, read_plan
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob

PLAN = plan("llama.cpp", "m", option("KV q8_0", kv_cache_type="q8_0"), option("short", context_length=4096))


def test_plan_file_round_trips(tmp_path):
    assert read_plan(FakeSystem(), written(tmp_path, PLAN)) == PLAN


def test_missing_plan_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_plan(FakeSystem(), str(tmp_path / "none.json"))


def test_option_is_chosen_by_recommendation_number_or_name():
    assert chosen_option(PLAN, None).name == "KV q8_0"
    assert chosen_option(PLAN, "1").name == "short"
    assert chosen_option(PLAN, "SHORT").name == "short"
    for wanted in ("2", "99999999999999999999", "o", "none"):
        with pytest.raises(UserError) as told:
            chosen_option(PLAN, wanted if wanted != "o" else "")
        assert "1: short" in told.value.hint


def test_plan_without_recommendation_needs_an_explicit_option():
    best = msgspec.structs.replace(PLAN, verdict="already_best", of_running=True)
    none = msgspec.structs.replace(PLAN, recommended=None, verdict="cannot_tell", reason="no GPU seen")
    empty = msgspec.structs.replace(PLAN, options=(), verdict="impossible", reason="nothing fits")
    for report, why in ((best, "current settings are the best"), (none, "no GPU seen"), (empty, "nothing fits")):
        with pytest.raises(UserError, match=why):
            chosen_option(report, None)
    assert chosen_option(best, "1").name == "short"
    of_a_file = msgspec.structs.replace(best, of_running=False, current=option("its own choice"))
    assert chosen_option(of_a_file, None).name == "KV q8_0"


def test_unknown_knobs_and_empty_options_are_refused():
    assert [(c.knob, c.value) for c in changes_of(PLAN, PLAN.options[0])] == [(Knob.KV_CACHE_TYPE, "q8_0")]
    with pytest.raises(UserError, match="warp_drive"):
        changes_of(PLAN, option("x", warp_drive=9))
    with pytest.raises(UserError, match="changes nothing"):
        changes_of(PLAN, option("x"))


def test_every_setting_is_applied_when_the_plan_is_not_for_a_running_server():
    all_of_it = option("all", kv_cache_type="q8_0", gpu_layers=33).changes
    whole = msgspec.structs.replace(PLAN.options[0], settings=all_of_it)
    assert len(changes_of(PLAN, whole)) == 2
    running = msgspec.structs.replace(PLAN, current=option("now"), of_running=True)
    assert len(changes_of(running, whole)) == 1
    assert len(changes_of(running, whole, anew=True)) == 2
    of_a_file = msgspec.structs.replace(PLAN, current=option("its own choice"))
    assert len(changes_of(of_a_file, whole)) == 2
