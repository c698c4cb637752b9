import msgspec
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.think.case.narrative import amount_bytes, compared_by, complains, denies, remarks_on, tried


def test_amounts_of_memory_in_words():
    assert amount_bytes("15-22 GB of swap") == 15e9
    assert amount_bytes("766 MB free, 1.5 GiB used") == 1.5e9
    assert amount_bytes("about half of it") == 0


def test_what_is_denied_is_no_remark():
    case = pasted(says(Topic.SWAPPING, "no swap in use", denied=True))
    assert remarks_on(case, Topic.SWAPPING) == []
    assert denies(case, Topic.SWAPPING)


def test_the_widest_of_several_comparisons():
    case = pasted(
        compares(Topic.VERSION, 10.0, 11.0), compares(Topic.VERSION, 10.0, 40.0), compares(Topic.NUMA, 1.0, 90.0)
    )
    assert compared_by(case, Topic.VERSION).fast == 40.0
    assert compared_by(pasted(compares(Topic.VERSION, 10.0, 11.0)), Topic.VERSION) is None


def test_depth_may_be_named_beside_an_experiment_and_another_change_may_not():
    trial = msgspec.structs.replace(
        compares(Topic.FLASH_ATTENTION, 8.0, 22.0), differs=(Topic.FLASH_ATTENTION, Topic.DEPTH)
    )
    assert tried(pasted(trial), Topic.FLASH_ATTENTION) == trial
    mixed = msgspec.structs.replace(trial, differs=(Topic.FLASH_ATTENTION, Topic.VERSION))
    assert tried(pasted(mixed), Topic.FLASH_ATTENTION) is None


def test_a_complaint_without_a_phase_may_be_about_any():
    assert complains(pasted(slow_metric="unknown"), "decode")
    assert complains(pasted(slow_metric="decode"), "decode")
    assert not complains(pasted(slow_metric="load"), "decode")
