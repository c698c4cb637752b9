"""Text is escaped, whatever it contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_samples import Parsed

from unslow.page.html.markup import Markup, sentence, tag, text


@given(said=st.text(), name=st.text())
def test_any_text_is_escaped(said, name):
    read = Parsed(tag("p", said, title=name))
    assert [element for element, _ in read.elements] == ["p"]
    assert "".join(read.texts) == said
    assert read.elements[0][1] == {"title": name}


def test_only_markup_is_not_escaped():
    assert tag("p", tag("b", "<i>"), Markup("<hr>")) == "<p><b>&lt;i&gt;</b><hr></p>"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"class_": "a b", "data_copy": 'say "x"'}, '<p class="a b" data-copy="say &quot;x&quot;"></p>'),
        ({"hidden": True, "disabled": False, "id": None}, "<p hidden></p>"),
        ({"width": 0.1 + 0.2, "height": 3}, '<p width="0.3" height="3"></p>'),
    ],
)
def test_attribute_names_and_values_are_written_as_html(attributes, expected):
    assert tag("p", **attributes) == expected


def test_void_elements_have_no_end_tag():
    assert tag("input", name="x") == '<input name="x">'


def test_backticks_mark_code_unless_unpaired():
    assert text("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert text("it's a ` alone") == "it&#x27;s a ` alone"


def test_sentence_gets_a_capital_and_a_full_stop():
    assert sentence("it is hot") == "It is hot."
    assert sentence("Is it?") == "Is it?"
    assert sentence("http://x: nothing listens there") == "http://x: nothing listens there."
    assert sentence("") == ""
