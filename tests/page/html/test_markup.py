"""Text stays text, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_samples import Parsed

from unslow.page.html.markup import Markup, sentence, tag, text


@given(said=st.text(), name=st.text())
def test_whatever_is_said_comes_out_as_text(said, name):
    read = Parsed(tag("p", said, title=name))
    assert [element for element, _ in read.elements] == ["p"]
    assert "".join(read.texts) == said
    assert read.elements[0][1] == {"title": name}


def test_only_markup_is_taken_as_it_is():
    assert tag("p", tag("b", "<i>"), Markup("<hr>")) == "<p><b>&lt;i&gt;</b><hr></p>"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"class_": "a b", "data_copy": 'say "x"'}, '<p class="a b" data-copy="say &quot;x&quot;"></p>'),
        ({"hidden": True, "disabled": False, "id": None}, "<p hidden></p>"),
        ({"width": 0.1 + 0.2, "height": 3}, '<p width="0.3" height="3"></p>'),
    ],
)
def test_attributes(attributes, expected):
    assert tag("p", **attributes) == expected


def test_elements_without_an_end():
    assert tag("input", name="x") == '<input name="x">'


def test_backticks_mark_code_unless_one_is_left_alone():
    assert text("run `a <b>` now") == "run <code>a &lt;b&gt;</code> now"
    assert text("it's a ` alone") == "it&#x27;s a ` alone"


def test_a_sentence_begins_and_ends_as_one():
    assert sentence("it is hot") == "It is hot."
    assert sentence("Is it?") == "Is it?"
    assert sentence("http://x: nothing listens there") == "http://x: nothing listens there."
    assert sentence("") == ""
