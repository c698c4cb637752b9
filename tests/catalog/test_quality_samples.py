"""The texts that servers are asked about."""

from unslow.catalog.quality import sample_openings, sample_text


def test_the_reading_is_long_enough_for_two_hundred_places():
    assert len(sample_text().split()) > 500
    assert "def most_common" in sample_text()
    assert "Brücke" in sample_text()


def test_openings_differ_and_end_where_a_word_is_due():
    assert len(set(sample_openings())) == len(sample_openings()) == 12
    assert all(opening == opening.rstrip() for opening in sample_openings())
