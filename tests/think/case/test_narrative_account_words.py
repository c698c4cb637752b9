import msgspec
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView


def test_memory_amounts_are_parsed_from_prose():
    assert amount_bytes("15-22 GB of swap") == 15e9
    assert amount_bytes("766 MB free, 1.5 GiB used") == 1.5e9
    assert amount_bytes("about half of it") == 0


def test_denied_topic_is_not_a_remark():
    case = pasted(says(Topic.SWAPPING, "no swap in use", denied=True))
    assert CaseView(case).narrative.remarks_on(Topic.SWAPPING) == []


def test_largest_of_several_comparisons_is_used():
    case = pasted(
        compares(Topic.VERSION, 10.0, 11.0), compares(Topic.VERSION, 10.0, 40.0), compares(Topic.NUMA, 1.0, 90.0)
    )
    assert CaseView(case).narrative.comparison_by(Topic.VERSION).fast == 40.0
    assert CaseView(pasted(compares(Topic.VERSION, 10.0, 11.0))).narrative.comparison_by(Topic.VERSION) is None


def test_experiment_may_differ_in_depth_but_not_in_another_setting():
    trial = msgspec.structs.replace(
        compares(Topic.FLASH_ATTENTION, 8.0, 22.0), differs=(Topic.FLASH_ATTENTION, Topic.DEPTH)
    )
    assert CaseView(pasted(trial)).narrative.trial_of(Topic.FLASH_ATTENTION) == trial
    mixed = msgspec.structs.replace(trial, differs=(Topic.FLASH_ATTENTION, Topic.VERSION))
    assert CaseView(pasted(mixed)).narrative.trial_of(Topic.FLASH_ATTENTION) is None


def test_complaint_without_a_phase_matches_any_phase():
    assert CaseView(pasted(slow_metric="unknown")).narrative.blames("decode")
    assert CaseView(pasted(slow_metric="decode")).narrative.blames("decode")
    assert not CaseView(pasted(slow_metric="load")).narrative.blames("decode")
