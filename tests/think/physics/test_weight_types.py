"""Kinds and classes of types: every type that models are stored in has its place."""

import re

import pytest

from unslow.catalog.quants import quants
from unslow.think.physics.weight_types import CLASSES, class_of_kind, kind_of

EVERY = sorted({name for types in CLASSES.values() for name in types})


@pytest.mark.parametrize(("class_", "types"), CLASSES.items())
def test_a_type_is_of_the_class_that_lists_it(class_, types):
    assert {class_of_kind(kind_of(name)) for name in types} == {class_}


def test_no_type_is_of_two_classes():
    assert len(EVERY) == sum(map(len, CLASSES.values()))


@pytest.mark.parametrize("name", [*EVERY, "", "Q9_X"])
def test_a_kind_is_its_own_kind(name):
    assert kind_of(kind_of(name)) == kind_of(name) == kind_of(name.upper())


@pytest.mark.parametrize("class_", CLASSES)
def test_a_class_stands_for_itself(class_):
    assert class_of_kind(class_) == class_


@pytest.mark.parametrize(
    ("type_", "kind"), [("BF16", "f16"), ("IQ2_XXS", "iq2"), ("Q4_K", "q4_k"), ("NVFP4", "mxfp4"), ("TQ1_0", "tq")]
)
def test_types_that_are_unpacked_alike_are_one_kind(type_, kind):
    assert kind_of(type_) == kind


def test_what_is_not_known_counts_as_four_bits():
    assert class_of_kind("q9_x") == "q4"


def test_the_types_that_weights_are_stored_in_are_listed():
    stored = {name.lower() for name in quants() if re.fullmatch(r"Q[2-6]_K|Q[45]_[01]|IQ\d_\w+", name)}
    assert stored <= set(EVERY)
