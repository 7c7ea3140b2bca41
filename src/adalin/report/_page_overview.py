"""The first screen of the page: what the runs say in sentences, who keeps plasticity where, two methods compared."""

from collections import Counter
from collections.abc import Iterable, Sequence

from adalin._text import count, listed
from adalin.report._html import Child, Element, h
from adalin.report._page_benchmark import fate_mark, number
from adalin.report._page_claims import JUDGEMENTS
from adalin.report._page_data import AT_FIRST, Section, by_row, fate_of
from adalin.report._page_html import MISSING, button, controls, hint, part, signed, swatch, table
from adalin.report._statistics import LEAST_TASKS, MARGIN
from adalin.report._style import style_of
from adalin.report._summary import Summary, method_title
from adalin.report._verdict import Verdict

LEGEND = (
    "Change of online accuracy from the first tasks (up to five) to the last ones; below it the mean over all tasks. ",
    (h("em", "Loses"), f": certainly falls by more than {MARGIN}; ", h("em", "gains"), ": rises by more; "),
    (h("em", "keeps"), ": neither, though it may have been better in between; ", h("em", "unclear"), ": the 95 % "),
    "interval does not tell, a seed diverged, it ends near chance, or there are fewer than ",
    f"{LEAST_TASKS} tasks.",
)


def overview(sections: Sequence[Section], verdicts: Sequence[Verdict], claims: str) -> Element:
    """The whole first part; `claims` is what the verdicts are about."""
    shown = [section for section in sections if section.run.description.shows_plasticity]
    which = " with equally hard tasks" if sections else ""
    body: Child = h("p", f"There are no runs{which} yet. ", h("code", "adalin run"), " makes some.", class_="empty")
    if shown:
        body = (_matrix(shown), hint(LEGEND))
    sentences = [h("li", sentence) for sentence in (*_sentences(shown), *_tally(verdicts, claims))]
    told = h("ul", sentences, class_="sentences") if sentences else None
    return part("overview", "Who keeps plasticity where", told, body, _comparison() if sections else None)


def _sentences(sections: Sequence[Section]) -> Iterable[Child]:
    """Which of the first methods never lose plasticity, and how often the others do."""
    fates: dict[str, list[str]] = {}
    for section in sections:
        for name, summary in by_row(section).items():
            fates.setdefault(name, []).append(fate_of(summary).word)
    first = {_name(name): words for name, words in list(fates.items())[:AT_FIRST]}
    keepers = [
        name for name, words in first.items() if set(words) <= {"keeps", "gains"} and len(words) == len(sections)
    ]
    if keepers:
        verb = "keeps" if len(keepers) == 1 else "keep"
        where = {1: "this benchmark", 2: "both benchmarks"}.get(len(sections), f"all {len(sections)} benchmarks")
        yield f"{listed(keepers)} {verb} plasticity on {where}."
    losses = Counter({name: words.count("loses") for name, words in first.items() if "loses" in words})
    for times in sorted(set(losses.values()), reverse=True):
        losers = [name for name in losses if losses[name] == times]
        verb = "loses" if len(losers) == 1 else "lose"
        yield f"{listed(losers)} {verb} plasticity on {times} of {count(len(sections), 'benchmark')}."


def _tally(verdicts: Sequence[Verdict], claims: str) -> Iterable[Child]:
    if verdicts:
        counts = Counter(verdict.outcome for verdict in verdicts)
        known = ", ".join(f"{counts[outcome]} {outcome}" for outcome in JUDGEMENTS if counts[outcome])
        yield (h("a", claims, href="#claims"), f": {known}.")


def _matrix(sections: Sequence[Section]) -> Child:
    columns = [by_row(section) for section in sections]
    methods = {name: summary.run.method for column in columns for name, summary in column.items()}
    heads = [
        h("a", h("span", section.run.description.title), h("small", section.source), href=f"#{section.anchor}")
        for section in sections
    ]
    rows = []
    for index, (name, method) in enumerate(methods.items()):
        cells = [_cell(column[name]) if name in column else h("td", MISSING, class_="none") for column in columns]
        head = h("th", swatch(style_of(method)), h("span", _name(name)), scope="row", title=name)
        rows.append(h("tr", head, cells, class_="more" if index >= AT_FIRST else None))
    matrix = table(["method", *heads], rows, label="Plasticity, methods by benchmarks", class_="matrix")
    more = button(f"all {len(rows)} methods", class_="all-rows", pressed=True) if len(rows) > AT_FIRST else None
    return matrix, more


def _name(row: str) -> str:
    """A row's name for people; that of a setting which is not the benchmark's own has its settings after the method."""
    method, *settings = row.split(" ", 1)
    return " ".join([method_title(method), *settings])


def _cell(summary: Summary) -> Element:
    fate, diverged = fate_of(summary), summary.diverged
    content: list[Child] = [fate_mark(fate)]
    slope = 0.0
    if fate.change is not None:
        slope = fate.change.value
        content += [" ", h("b", signed(slope)), h("small", f"accuracy {number(summary.total())[1]}")]
    if diverged:
        seeds = f"{diverged} of {count(len(summary.results), 'seed')}"
        content.append(h("small", seeds if fate.word == "diverged" else f"{seeds} diverged"))
    tint = round(45 * min(1.0, abs(slope) / 0.5))  # half of all accuracy lost is as bad as it looks
    return h("td", content, class_=fate.word, style=f"--tint:{tint}%")


def _comparison() -> Element:
    """Two methods side by side: empty and hidden until page.js knows the methods."""
    choices = controls(
        h("label", "method ", h("select", class_="compare-first", autocomplete="off")),
        h("label", "against ", h("select", class_="compare-second", autocomplete="off")),
    )
    heads = ("benchmark", "seeds of both", "the first", "the second", "difference, 95 % interval")
    results = table(heads, (), label="Two methods, benchmark by benchmark", class_="compared")
    note = hint(
        "Mean over all tasks of the seeds that both have. The interval is Student's, of the differences seed by seed; "
        "one that contains 0 does not tell the two apart. A run that diverged counts 0 from there on."
    )
    return h("div", h("h3", "Compare two methods"), choices, results, note, class_="compare", hidden=True)
