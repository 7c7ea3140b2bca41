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
        ([("holds", FULL), ("holds", FULL)], "holds"),
        ([("holds", FULL), ("holds", SMALL)], "holds (at a smaller scale than the paper's)"),
        ([("does not hold", SMALL), ("holds", FULL)], "does not hold (at a smaller scale than the paper's)"),
        ([("does not hold", SMALL), ("does not hold", FULL)], "does not hold"),
        ([("undecided", SMALL), ("holds", FULL)], "undecided"),
        ([], "undecided"),
    ],
)
def test_a_verdict_tells_if_it_rests_on_less_than_the_papers_runs(findings, text):
    made = tuple(Finding("something", outcome, "3 seeds", smaller) for outcome, smaller in findings)
    assert str(Verdict("C1", "a claim", made, source="the paper")) == text


def test_methods_of_the_main_figure_come_first_and_unknown_ones_last(tmp_path):
    path, (start, end) = tmp_path / "page.md", MARKS
    path.write_text(f"{start}\n{end}\n")
    methods = ["adalin-gelu", "adalin+l2", "adalin:gate=none", "adalin", "baseline", "crelu"]  # as folders are read
    write_markdown([make_result(method) for method in methods], path)
    shown = re.findall(r"^\| (\S+) \| 1 \|", path.read_text(), re.MULTILINE)
    assert shown == ["baseline", "adalin", "crelu", "adalin-gelu", "adalin:gate=none", "adalin+l2"]
