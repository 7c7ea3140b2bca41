from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adalin.report._html import Element, h, to_html

HOSTILE = ["</script>", "<!--", "&amp;", "&lt", "'\"><img src=x onerror=alert(1)>", "]]>", "\u2028", ""]
TEXTS = st.text() | st.sampled_from(HOSTILE)


class Read(HTMLParser):
    """What a parser finds."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


@given(TEXTS, TEXTS)
def test_any_text_and_any_attribute_value_come_back_as_they_were(text: str, value: str) -> None:
    found = Read(str(h("p", text, h("img", alt=value), title=value)))
    assert found.tags == ["p", "img", "/p"]
    assert found.attributes == [{"title": value}, {"alt": value}]
    assert found.text == text


@given(st.lists(TEXTS))
def test_texts_beside_elements_never_make_an_element(texts: list[str]) -> None:
    found = Read(to_html(texts, h("b", texts)))
    assert found.tags == ["b", "/b"]
    assert found.text == "".join(texts) * 2


@pytest.mark.parametrize(
    ("element", "html"),
    [
        (h("br"), "<br>"),
        (h("td", class_="none", data_value=3), '<td class="none" data-value="3"></td>'),
        (h("line", stroke_dasharray="7 4", x1=1.5), '<line stroke-dasharray="7 4" x1="1.5"></line>'),
        (h("div", hidden=True, inert=False, id=None), "<div hidden></div>"),
        (h("a", href=""), '<a href=""></a>'),
        (h("td", 0, data_value=0), '<td data-value="0">0</td>'),
        (h("ul", None, [h("li", 1), [None, (h("li", "x"),)]]), "<ul><li>1</li><li>x</li></ul>"),
    ],
)
def test_elements_attributes_and_children_as_html(element: Element, html: str) -> None:
    assert str(element) == html


def test_an_element_can_be_written_again_though_its_children_came_from_a_generator() -> None:
    element = h("ul", (h("li", number) for number in range(2)))
    assert str(element) == str(element) == "<ul><li>0</li><li>1</li></ul>"


@pytest.mark.parametrize("tag", ["script", "style", "p onclick=x", "", "a>b", "1"])
def test_an_element_that_could_hold_or_be_raw_markup_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="element"):
        h(tag, "text")


def test_attribute_names_and_void_elements_are_checked() -> None:
    with pytest.raises(ValueError, match="'x y'"):
        h("p", **{"x y": "1"})
    with pytest.raises(ValueError, match="'br'"):
        h("br", "text")
