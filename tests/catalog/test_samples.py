"""The texts that servers are asked about."""

from unslow.catalog.samples import openings, reading


def test_the_reading_is_long_enough_for_two_hundred_places():
    assert len(reading().split()) > 500
    assert "def most_common" in reading()
    assert "Brücke" in reading()


def test_openings_differ_and_end_where_a_word_is_due():
    assert len(set(openings())) == len(openings()) == 12
    assert all(opening == opening.rstrip() for opening in openings())
