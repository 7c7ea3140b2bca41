"""What the tables of the documentation say, and in which order."""

import re

import pytest

from adalin.report import Finding, Verdict
from adalin.studies._publish import MARKS, write_markdown
from made_results import make_result

FULL: tuple[str, ...] = ()
SMALL = ("30 of 250 tasks",)


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        ([("holds", FULL), ("holds", FULL)], "reproduced 2/2"),
        ([("holds", FULL), ("does not hold", FULL)], "in part 1/2"),
        ([("holds", FULL), ("undecided", FULL)], "in part 1/2 (1 undecided)"),
        ([("does not hold", FULL), ("undecided", FULL)], "not reproduced 0/2 (1 undecided)"),
        ([("holds", FULL), ("holds", SMALL)], "reproduced 2/2 (1 at a smaller scale than the paper's)"),
        ([("holds", FULL), ("undecided", SMALL)], "in part 1/2 (1 undecided)"),
        (
            [("does not hold", SMALL), ("does not hold", FULL)],
            "not reproduced 0/2 (1 at a smaller scale than the paper's)",
        ),
        ([("holds", SMALL), ("does not hold", SMALL)], "not tested at scale (2 of 2 comparisons at a smaller one)"),
        ([("undecided", SMALL), ("undecided", FULL)], "not tested at scale (1 of 2 comparisons at a smaller one)"),
        ([("undecided", FULL)], "undecided"),
        ([], "undecided"),
    ],
)
def test_a_verdict_is_the_fraction_of_its_findings_and_tells_what_rests_on_less(findings, text):
    made = tuple(Finding("something", outcome, "3 seeds", smaller) for outcome, smaller in findings)
    assert str(Verdict("C1", "a claim", made, source="the paper")) == text


def test_methods_of_the_main_figure_come_first_and_unknown_ones_last(tmp_path):
    path, (start, end) = tmp_path / "page.md", MARKS
    path.write_text(f"{start}\n{end}\n")
    methods = ["adalin-gelu", "adalin+l2", "adalin:gate=none", "adalin", "baseline", "crelu"]  # as folders are read
    write_markdown([make_result(method) for method in methods], path)
    shown = re.findall(r"^\| (\S+) \| 1 \|", path.read_text(), re.MULTILINE)
    assert shown == ["baseline", "adalin", "crelu", "adalin-gelu", "adalin:gate=none", "adalin+l2"]
