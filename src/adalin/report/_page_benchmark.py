"""The part of the page on one benchmark: curves, results, heat maps, and how they were made."""

import math
from collections import Counter
from dataclasses import dataclass
from html import escape

import numpy as np

from adalin.report._page_data import Section
from adalin.report._page_html import scrolling, signed, sort_key, sortable_heads, spelled, swatch, words
from adalin.report._page_origin import origin
from adalin.report._statistics import MARGIN, Interval, plasticity
from adalin.report._style import Style
from adalin.report._summary import Summary, Values
from adalin.report._table import mean_text
from adalin.report._table import spread as spread_text

MISSING = (math.nan, "&ndash;")


@dataclass(frozen=True)
class Fate:
    """What became of a setting's plasticity."""

    word: str
    """loses, keeps, gains, unclear, diverged or unfinished."""
    slope: Interval | None = None

    @property
    def text(self) -> str:
        symbols = {"loses": "▼", "keeps": "●", "gains": "▲", "unclear": "?", "diverged": "✕", "unfinished": "…"}
        return f'<span class="word {self.word}">{symbols[self.word]} {self.word}</span>'


def fate_of(summary: Summary) -> Fate:
    diverged = sum(result.state == "diverged" for result in summary.results)
    if diverged == len(summary.results):
        return Fate("diverged")
    if summary.tasks < 2:
        return Fate("unfinished")
    found = plasticity(summary.scores(), chance=summary.run.chance, diverged=diverged)
    if math.isnan(found.change.value):
        return Fate("unfinished")
    if found.lost:
        return Fate("loses", found.change)
    if not found.kept:
        return Fate("unclear", found.change)
    return Fate("gains" if found.change.low > MARGIN else "keeps", found.change)


def benchmark_part(section: Section, number: int) -> str:
    bundled = (
        ' <strong class="warn">These are the bundled digits, a small part of MNIST: '
        "the numbers are not those of the full data set.</strong>"
    )
    metrics = "".join(f'<option value="{escape(name)}">{words(name)}</option>' for name in section.metrics)
    methods = "".join(
        f'<button type="button" class="method" data-setting="{index}" aria-pressed="true">'
        f"{swatch(style)}{escape(one.label)}</button>"
        for index, (one, style) in enumerate(zip(section.summaries, section.styles, strict=True))
    )
    after = ", and has an accuracy of 0 from there on" if section.run.score.endswith("accuracy") else ""
    name, about, source = escape(section.run.benchmark), escape(section.run.about), escape(section.source)
    return (
        f'<section id="{escape(section.anchor)}" class="benchmark" data-benchmark="{number}"><h2>{name}</h2>'
        f"<p>{about[:1].upper()}{about[1:]}. Data: {source}.{bundled if section.bundled else ''}</p>"
        f'<div class="controls"><label>metric <select class="metric" autocomplete="off">{metrics}</select></label>'
        '<button type="button" class="seeds" aria-pressed="false">single seeds</button>'
        '<button type="button" class="full" aria-pressed="true">full scale</button>'
        '<button type="button" class="every">all methods</button><button type="button" class="none">none</button></div>'
        f'<div class="controls methods" role="group" aria-label="Methods">{methods}</div>'
        f'<div class="chart curves" role="img" aria-label="Curves over tasks on {name}; a table follows"></div>'
        '<p class="hint">Line: mean over seeds; band: one standard deviation; crossed circle: a seed diverged'
        f'{after}. <span class="about-metric"></span></p>'
        f"{_results(section)}{_maps()}{origin(section)}</section>"
    )


def _maps() -> str:
    """Empty and hidden: page.js fills it if there is something to show."""
    return (
        '<div class="maps" hidden><h3>Alpha and saturation, neuron by neuron</h3><div class="controls">'
        '<label>method <select class="map-setting" autocomplete="off"></select></label>'
        '<label>layer <select class="map-layer" autocomplete="off"></select></label>'
        '<button type="button" class="map-sort" aria-pressed="true">neurons in order</button></div>'
        '<div class="pair"></div><p class="hint">In order: by the last task\'s alpha, or by saturation where there is '
        "no alpha; the same in both maps. Colours of alpha end where 99 % of its values do.</p></div>"
    )


def _results(section: Section) -> str:
    run = section.run
    tested = any(summary.tasks and summary.has(run.test_score) for summary in section.summaries)
    task = run.task_name
    columns = ["method", "seeds", f"{task}s", f"first {task}", f"last {task}", f"all {task}s"]
    columns += [f"{words(run.test_score).partition(' ')[0]}, all {task}s"] if tested else []
    columns += ["slope"] if run.shows_plasticity else []
    rows = "".join(
        _row(summary, style, tested, run.shows_plasticity)
        for summary, style in zip(section.summaries, section.styles, strict=True)
    )
    slope = " Slope: the last tasks (up to five) minus the first ones, with its 95 % interval."
    table = (
        f'<table class="results sortable"><caption>{words(run.score).capitalize()}, mean over seeds ± standard '
        f"deviation.{slope if run.shows_plasticity else ''}</caption>"
        f"<thead><tr>{sortable_heads((*columns, 'state'))}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return scrolling(table, f"Results on {run.benchmark}")


def _row(summary: Summary, style: Style, tested: bool, with_slope: bool) -> str:
    cells: list[tuple[float, str]] = [
        (len(summary.seeds), spelled(summary.seeds)),
        (summary.tasks, str(summary.tasks)),
    ]
    if summary.tasks:
        values = summary.scores()
        cells += [number(values[:, 0]), number(values[:, -1]), number(summary.total(), spread=True)]
        cells += [number(summary.total(summary.run.test_score), spread=True)] if tested else []
    else:
        cells += [MISSING] * (3 + tested)
    fate = fate_of(summary)
    if with_slope and fate.slope is None:
        cells.append(MISSING)
    elif with_slope and fate.slope is not None:
        interval = f"<small>[{signed(fate.slope.low)}, {signed(fate.slope.high)}]</small>"
        cells.append((fate.slope.value, f"{signed(fate.slope.value)} {interval} {fate.text}"))
    numbers = "".join(f'<td data-value="{sort_key(value)}">{text}</td>' for value, text in cells)
    label = escape(summary.label)
    return (
        f'<tr><th scope="row" data-value="{label}">{swatch(style)}{label}</th>{numbers}'
        f"<td>{escape(_state(summary))}</td></tr>"
    )


def number(values: Values, *, spread: bool = False) -> tuple[float, str]:
    """The mean over those seeds that have a number, to sort by and to read."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return MISSING
    return float(finite.mean()), spread_text(finite) if spread else mean_text(finite)


def _state(summary: Summary) -> str:
    task_name = summary.run.task_name
    states = Counter(result.state for result in summary.results)
    texts = ["done" if states["done"] == len(summary.results) else f"{states['done']} done"] if states["done"] else []
    if states["unfinished"]:
        tasks = [len(result.rows) for result in summary.results if result.state == "unfinished"]
        reached = str(min(tasks)) if min(tasks) == max(tasks) else f"{min(tasks)} to {max(tasks)}"
        texts.append(f"{reached} of {summary.run.tasks} {task_name}s")
    for result in summary.results:
        if result.state == "diverged":
            task, step = result.position["task"] + 1, result.position["step"]
            texts.append(f"✕ seed {result.run.seed} diverged in {task_name} {task}, step {step}")
    return ", ".join(texts)
