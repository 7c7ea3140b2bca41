"""Every Python block of the documentation runs, a page in one go."""

import re
from pathlib import Path

import pytest

from adalin.report import read_results
from adalin.studies import write_markdown

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_python_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    scope = {"__name__": "docs"}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(page), "exec"), scope)
    printed = capsys.readouterr().out
    for expected in re.findall(r"^prints\n\n```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        assert expected in printed


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_and_make_targets_of_a_page_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text):
        assert (page.parent / target).exists(), target
        # The site is made of docs/ alone.
        assert page.parent == ROOT or (page.parent / target).resolve().is_relative_to(DOCS.resolve()), target
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert command in targets


@pytest.mark.parametrize(("page", "what"), [(ROOT / "README.md", "verdicts"), (DOCS / "reproduction.md", "results")])
def test_published_tables_are_those_of_the_recorded_results(page, what, tmp_path):
    results, problems = read_results(ROOT / "results")
    assert problems == []
    (published,) = re.findall(rf"<!-- {what}: made by .*?<!-- end of {what} -->", page.read_text(), re.DOTALL)
    assert published.count("| C1") > 9
    (tmp_path / "tables.md").write_text(published)
    write_markdown(results, tmp_path / "tables.md")
    assert (tmp_path / "tables.md").read_text() == published
