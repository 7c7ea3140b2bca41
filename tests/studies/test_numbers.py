"""Numbers in sentences are made from results, and none stands there by hand."""

import re
from pathlib import Path

import pytest

from adalin.report import Summary
from adalin.studies import fill_numbers, write_markdown
from adalin.studies._publish import marks_of
from made_results import define, result_of

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("reproduction", "choose", "foretell")]
SETTINGS = {
    "0.001": "a learning rate",
    "0.005": "leads that are none",
    "0.01": "a learning rate",
    "0.02": "scores that are alike",
    "0.05": "the margin of plasticity",
    "-0.05": "the margin of plasticity",
    "0.1": "above chance",
    "0.25": "PReLU's first alpha",
    "0.5": "a coin",
    "0.6": "a slope",
    "0.9": "a slope",
    "1.4.0": "gymnasium",
    "4.0.0": "mujoco",
}
"""Numbers that are no results, with what they are."""
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:\.\d+)?(?![\w])")


def made():
    results = []
    for seed in (3, 4):
        run = define("class-split-cifar100", "adalin", seed)
        rows = [{"task": task, "online_accuracy": 0.1 + 0.04 * task, "test_accuracy": 0.5} for task in range(20)]
        results.append(result_of(run, rows))
    return [Summary("adalin", results)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("all class-split-cifar100 adalin-->0.000", "0.480"),
        ("last class-split-cifar100 adalin-->0.00", "0.78"),
        ("first class-split-cifar100 adalin-->0.00", "0.18"),
        ("task class-split-cifar100 adalin 2-->9.9", "0.1"),
        ("peak class-split-cifar100 adalin-->0.00", "0.86"),
        ("fall class-split-cifar100 adalin-->0.00", "0.00"),
        ("last-test class-split-cifar100 adalin-->0.00", "0.50"),
    ],
)
def test_a_number_is_what_its_comment_says_with_the_decimals_that_it_has(asked, expected):
    text = f"It is at <!--{asked} at last."
    assert fill_numbers(text, made()) == text.rpartition("-->")[0] + f"-->{expected} at last."


@pytest.mark.parametrize(
    "asked", ["sum class-split-cifar100 adalin", "all class-split-cifar100 crelu", "all nowhere adalin"]
)
def test_a_number_that_results_do_not_give_is_told(asked):
    with pytest.raises(ValueError, match="no number for"):
        fill_numbers(f"<!--{asked}-->0.1", made())


def test_a_page_gets_its_numbers_with_its_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!--all class-split-cifar100 adalin-->0.11\n" + "\n".join(marks_of("choice")))
    write_markdown([result for summary in made() for result in summary.results], page)
    assert page.read_text().startswith("<!--all class-split-cifar100 adalin-->0.48\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_number_of_a_page_is_written_by_hand(page):
    text = re.sub(r"<!-- (\w+): made by .*?<!-- end of \1 -->", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    text = text.partition("## Permuted MNIST, small")[0]  # a port's own numbers, beside ours of another commit
    text = re.sub(r"<!--[^>]*-->[\d.]+", "", text)
    assert set(NUMBER.findall(text)) <= SETTINGS.keys()
