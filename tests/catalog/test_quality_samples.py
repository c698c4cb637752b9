"""The texts that are scored for quality."""

from unslow.catalog.quality import sample_openings, sample_text


def test_the_sample_text_has_more_than_500_words():
    assert len(sample_text().split()) > 500
    assert "def most_common" in sample_text()
    assert "Brücke" in sample_text()


def test_sample_openings_are_distinct_without_trailing_blank():
    assert len(set(sample_openings())) == len(sample_openings()) == 12
    assert all(opening == opening.rstrip() for opening in sample_openings())
