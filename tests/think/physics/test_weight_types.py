"""Kinds and classes of tensor types: every type that models are stored in is covered."""

import re

import pytest

from unslow.catalog.quants import quants
from unslow.think.physics.chip import CLASSES, class_of_kind, kind_of

EVERY = sorted({name for types in CLASSES.values() for name in types})


@pytest.mark.parametrize(("class_", "types"), CLASSES.items())
def test_type_belongs_to_the_class_that_lists_it(class_, types):
    assert {class_of_kind(kind_of(name)) for name in types} == {class_}


def test_no_type_is_in_two_classes():
    assert len(EVERY) == sum(map(len, CLASSES.values()))


@pytest.mark.parametrize("name", [*EVERY, "", "Q9_X"])
def test_kind_of_a_kind_is_itself(name):
    assert kind_of(kind_of(name)) == kind_of(name) == kind_of(name.upper())


@pytest.mark.parametrize("class_", CLASSES)
def test_class_of_a_class_is_itself(class_):
    assert class_of_kind(class_) == class_


@pytest.mark.parametrize(
    ("type_", "kind"), [("BF16", "f16"), ("IQ2_XXS", "iq2"), ("Q4_K", "q4_k"), ("NVFP4", "mxfp4"), ("TQ1_0", "tq")]
)
def test_types_unpacked_alike_share_a_kind(type_, kind):
    assert kind_of(type_) == kind


def test_unknown_type_counts_as_four_bits():
    assert class_of_kind("q9_x") == "q4"


def test_every_stored_quant_type_is_listed():
    stored = {name.lower() for name in quants() if re.fullmatch(r"Q[2-6]_K|Q[45]_[01]|IQ\d_\w+", name)}
    assert stored <= set(EVERY)
