"""The part of the page on one benchmark: curves, results, heat maps, and how they were made."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from adalin._text import count
from adalin.metrics import is_accuracy
from adalin.report._html import Child, Element, h
from adalin.report._page_data import AT_FIRST, Fate, Section, fate_of
from adalin.report._page_html import (
    MISSING,
    button,
    controls,
    folded,
    hint,
    signed,
    sort_key,
    spelled,
    swatch,
    table,
    words,
)
from adalin.report._page_origin import origin
from adalin.report._statistics import Values
from adalin.report._summary import Summary
from adalin.report._table import mean_text
from adalin.report._table import spread as spread_text

Cell = tuple[float, Child]
"""What a cell is sorted by, and what it shows."""
SYMBOLS = {"loses": "▼", "keeps": "●", "gains": "▲", "unclear": "?", "diverged": "✕", "unfinished": "…"}
BUNDLED = "These are the bundled digits, a small part of MNIST: the numbers are not those of the full data set."


def benchmark_part(section: Section, index: int) -> Element:
    """The whole part on a benchmark; page.js finds its data by the index."""
    run, title = section.run, section.run.description.title
    warning = (" ", h("strong", BUNDLED, class_="warn")) if section.bundled else None
    metrics = [h("option", words(metric), value=metric) for metric in section.metrics]
    methods = [
        button(
            *(swatch(style), summary.title),
            class_="method",
            title=summary.label,
            data_setting=setting,
            pressed=setting < AT_FIRST,
        )
        for setting, (summary, style) in enumerate(zip(section.summaries, section.styles, strict=True))
    ]
    first, rest = methods[:AT_FIRST], methods[AT_FIRST:]
    more = h("details", h("summary", f"{count(len(rest), 'more method')}"), rest, class_="rest") if rest else None
    choices = controls(
        h("label", "metric ", h("select", metrics, class_="metric", autocomplete="off")),
        button("single seeds", class_="seeds", pressed=False),
        button("full scale", class_="full", pressed=True),
        button("all methods", class_="every"),
        button("the first eight", class_="first") if rest else None,
        button("none", class_="none"),
    )
    legend = (
        "Line: mean over seeds that still train; band: one standard deviation; crossed circle: a seed is lost, it "
        "diverged. Dashed: an activation without AdaLin beside that with it. "
    )
    content = (
        h("p", f"{run.description.summary[:1].upper()}{run.description.summary[1:]}. Data: {section.source}.", warning),
        choices,
        controls(first, more, class_="controls methods", label="Methods"),
        h("div", class_="chart curves", role="img", aria_label=f"Curves over tasks on {title}; a table follows"),
        hint(legend, h("span", class_="about-metric")),
        _results(section),
        _maps(),
        origin(section),
    )
    note = f"{count(len(section.summaries), 'setting')}, {section.source}"
    return folded(section.anchor, title, note, content, class_="benchmark", data_benchmark=index)


def fate_mark(fate: Fate) -> Element:
    """A fate's symbol and word."""
    return h("span", SYMBOLS[fate.word], h("span", f" {fate.word}", class_="said"), class_=f"word {fate.word}")


def number(values: Values, *, spread: bool = False) -> Cell:
    """The mean over those seeds that have a number, to sort by and to read."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return math.nan, MISSING
    return float(finite.mean()), spread_text(finite) if spread else mean_text(finite)


def _results(section: Section) -> Element:
    run, task = section.run, section.run.description.task_name
    columns: dict[str, Callable[[Summary], Cell]] = {
        "seeds": lambda summary: (len(summary.seeds), spelled(summary.seeds)),
        f"{task}s": lambda summary: (summary.tasks, summary.tasks),
        f"first {task}": lambda summary: number(summary.scores()[:, :1]),
        f"last {task}": lambda summary: number(summary.scores()[:, -1:]),
        f"all {task}s": lambda summary: number(summary.total(), spread=True),
    }
    caption = f"{words(run.description.score).capitalize()}, mean over seeds ± standard deviation."
    if is_accuracy(run.description.score) and any(summary.diverged for summary in section.summaries):
        caption += " A seed that diverged counts 0 from there on."
    if any(summary.tasks and summary.has(run.description.test_score) for summary in section.summaries):
        test = words(run.description.test_score).partition(" ")[0]
        columns[f"{test}, all {task}s"] = lambda summary: number(summary.total(run.description.test_score), spread=True)
    if run.description.shows_plasticity:
        columns["slope"] = _slope
        caption += " Slope: the last tasks (up to five) minus the first ones, with its 95 % interval."
    rows = []
    for summary, style in zip(section.summaries, section.styles, strict=True):
        code = h("small", summary.label) if summary.label != summary.title else None
        name = h("th", swatch(style), summary.title, code, scope="row", data_value=summary.title)
        found = [cell(summary) for cell in columns.values()]
        cells = [h("td", content, data_value=sort_key(value)) for value, content in found]
        rows.append(h("tr", name, cells, h("td", _state(summary))))
    heads, label = ("method", *columns, "state"), f"Results on {run.benchmark}"
    return table(heads, rows, label=label, class_="results", caption=caption, sortable=True)


def _slope(summary: Summary) -> Cell:
    fate = fate_of(summary)
    if fate.change is None:
        return math.nan, MISSING
    interval = h("small", f"[{signed(fate.change.low)}, {signed(fate.change.high)}]")
    return fate.change.value, (f"{signed(fate.change.value)} ", interval, " ", fate_mark(fate))


def _state(summary: Summary) -> str:
    task_name = summary.run.description.task_name
    states = Counter(result.state for result in summary.results)
    texts = []
    if states["done"]:
        texts.append("done" if states["done"] == len(summary.results) else f"{states['done']} done")
    if states["unfinished"]:
        tasks = sorted(len(result.rows) for result in summary.results if result.state == "unfinished")
        reached = str(tasks[0]) if tasks[0] == tasks[-1] else f"{tasks[0]} to {tasks[-1]}"
        texts.append(f"{reached} of {summary.run.tasks} {task_name}s")
    for result in summary.results:
        if result.state == "diverged":
            task, step = result.position.task + 1, result.position.step
            texts.append(f"✕ seed {result.run.seed} diverged in {task_name} {task}, step {step}")
    return ", ".join(texts)


def _maps() -> Element:
    """Heat maps: empty and hidden until page.js has some to show."""
    choices = controls(
        h("label", "method ", h("select", class_="map-setting", autocomplete="off")),
        h("label", "layer ", h("select", class_="map-layer", autocomplete="off")),
        button("neurons in order", class_="map-sort", pressed=True),
    )
    legend = (
        "In order: by the last task's alpha, or by saturation where there is no alpha; the same in both maps. "
        "Colours of alpha end where 99 % of its values do."
    )
    title = h("h3", "Alpha and saturation, neuron by neuron")
    return h("div", title, choices, h("div", class_="pair"), hint(legend), class_="maps", hidden=True)
