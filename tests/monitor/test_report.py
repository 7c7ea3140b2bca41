"""The page and the figure of a monitor."""

import os
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import adalin
from chromium import Chromium, find_chromium


def watched(networks):
    monitor = adalin.Monitor(networks, every=5)
    models = networks.values() if isinstance(networks, dict) else [networks]
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(12):
            optimizer.zero_grad()
            model(torch.randn(16, 8)).square().mean().backward()
            optimizer.step()
            monitor.note(loss=1 / (1 + step))
        monitor.mark("the end of <b>a task</b>")
    return monitor


def mlp(depth=2):
    layers = [nn.Linear(8, 16), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(16, 2))


class Checked(HTMLParser):
    """Every element is closed, and nothing is fetched."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not {"src", "href", "onclick"} & dict(attributes).keys()
        if tag not in ("meta", "path", "rect", "circle", "polyline", "polygon"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "circle", "rect", "polygon", "polyline"):
            assert self.open.pop() == tag


def test_the_page_is_whole_offline_and_escaped(tmp_path):
    monitor = watched({"actor <1>": mlp(), "critic": mlp(9)})
    page = monitor.report(tmp_path / "monitor.html", probe=False)
    text = page.read_text("utf-8")
    checked = Checked(text)
    assert checked.open == []
    assert "script" not in checked.tags
    assert "actor &lt;1&gt;" in text
    assert "actor <1>" not in text
    assert "<b>a task" not in text
    assert "http" not in text
    assert text.count("<svg") == 3 + 8  # two layers and a loss; six layers of nine, all of them, a loss
    assert "no probe yet" in text


def test_a_monitor_that_has_seen_nothing_makes_a_page_too(tmp_path):
    with pytest.warns(UserWarning, match="no call with gradients"):
        page = adalin.Monitor(mlp()).report(tmp_path / "monitor.html")
    assert "no probe yet" in page.read_text()


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_a_figure_is_written(tmp_path, suffix):
    monitor = watched(mlp())
    monitor.probe(steps=20)
    path = monitor.report(tmp_path / f"monitor{suffix}", probe=False, title="A network")
    assert path.stat().st_size > 5_000


def test_other_names_are_refused_in_one_line(tmp_path):
    monitor = adalin.Monitor(mlp())
    with pytest.raises(ValueError, match=r"must end in \.html, \.png"):
        monitor.report(tmp_path / "monitor.txt")
    with pytest.raises(ValueError, match="there is no folder"):
        monitor.report(tmp_path / "nowhere" / "monitor.html")


@pytest.mark.skipif(find_chromium() is None or not hasattr(os, "fork"), reason="no chromium")
def test_the_page_fits_wide_and_narrow_windows(tmp_path):
    monitor = watched({"a_network_with_a_long_name_that_has_no_place_to_break_in_it": mlp(9), "critic": mlp()})
    monitor.probe("critic", steps=20)
    page = monitor.report(tmp_path / "monitor.html", probe=False)
    with Chromium(tmp_path / "profile") as tab:
        for width in (1440, 390):
            tab.open(page, width=width)
            assert tab.errors == []
            assert tab.requests == [page.as_uri()]
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            smallest = (
                "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
            )
            assert tab.evaluate(smallest) > 9
            cut = (
                "[...document.querySelectorAll('svg text')].filter(t => {const a = t.getBoundingClientRect(),"
                " b = t.ownerSVGElement.getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1})"
                ".map(t => t.textContent)"
            )
            assert tab.evaluate(cut) == []
