"""The part of the page on claims: each with its verdict, its words and the findings that it rests on."""

from collections import Counter
from collections.abc import Sequence

from adalin.report._html import Element, h
from adalin.report._page_html import button, controls, part, table
from adalin.report._verdict import Judgement, Verdict

JUDGEMENTS: tuple[Judgement, ...] = ("reproduced", "in part", "not reproduced", "not tested at scale", "undecided")
"""Verdicts in the order of the page."""
SYMBOLS = {
    **{"reproduced": "✓", "in part": "◐", "not reproduced": "✗", "not tested at scale": "○", "undecided": "?"},
    **{"holds": "✓", "does not hold": "✗"},
}
"""Signs of verdicts and of findings."""


def claims_part(verdicts: Sequence[Verdict], title: str) -> Element | None:
    """The whole part; None without verdicts."""
    if not verdicts:
        return None
    counts = Counter(verdict.outcome for verdict in verdicts)
    filters = [button(f"all ({len(verdicts)})", data_outcome="", pressed=True)]
    for outcome in JUDGEMENTS:
        filters.append(button(f"{SYMBOLS[outcome]} {outcome} ({counts[outcome]})", data_outcome=outcome, pressed=False))
    rule = (
        "A claim is a set of comparisons, one for each benchmark, method or environment that it is about; its verdict "
        "is how many of them hold. Open a claim to see them."
    )
    choices = controls(filters, class_="controls filters", label="Outcome")
    rows = [_claim(verdict, index) for index, verdict in enumerate(verdicts)]
    claims = table(("claim", "text", "outcome"), rows, label="Claims", class_="claims", sortable=True)
    return part("claims", title, h("p", rule), choices, claims)


def _claim(verdict: Verdict, index: int) -> Element:
    findings = [
        h("li", _outcome(finding.outcome), f": {finding.statement}", h("small", finding.numbers))
        for finding in verdict.findings
    ]
    quote = h("blockquote", verdict.quote) if verdict.quote else None
    known = h("ul", findings) if findings else h("p", "No run tells.")
    details = h("details", h("summary", verdict.text), quote, known)
    place = JUDGEMENTS.index(verdict.outcome)
    judged = h("span", _symbol(verdict.outcome), f" {verdict}", class_=f"outcome {_class(verdict.outcome)}")
    cells = (h("td", details), h("td", judged, data_value=place))
    return h("tr", h("th", verdict.claim, scope="row", data_value=index), cells, data_outcome=verdict.outcome)


def _outcome(outcome: str) -> Element:
    return h("span", _symbol(outcome), f" {outcome}", class_=f"outcome {_class(outcome)}")


def _symbol(outcome: str) -> Element:
    return h("span", SYMBOLS[outcome], aria_hidden="true")


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")
