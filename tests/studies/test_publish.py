"""What the tables of the documentation say of a claim."""

import pytest

from adalin.report import Verdict
from adalin.report._verdict import SMALLER, Finding

FULL, SMALL = "3 seeds", f"3 seeds; {SMALLER}: 30 of 250 tasks"


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        ([("holds", FULL), ("holds", FULL)], "holds"),
        ([("holds", FULL), ("holds", SMALL)], "holds (at a smaller scale than the paper's)"),
        ([("does not hold", SMALL), ("holds", FULL)], "does not hold (at a smaller scale than the paper's)"),
        ([("does not hold", SMALL), ("does not hold", FULL)], "does not hold"),
        ([("undecided", SMALL), ("holds", FULL)], "undecided"),
        ([], "undecided"),
    ],
)
def test_a_verdict_tells_if_it_rests_on_less_than_the_papers_runs(findings, told):
    made = tuple(Finding("something", outcome, numbers) for outcome, numbers in findings)
    assert str(Verdict("C1", "a claim", made)) == told
