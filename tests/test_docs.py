"""Every Python block of the documentation runs, a page in one go."""

import re
import shlex
from pathlib import Path

import pytest

import torchvision_schemas
from adalin.cli import COMMANDS
from adalin.cli._parse import parse
from adalin.methods import Method
from adalin.report import read_results
from adalin.runs import kind_of
from adalin.studies import write_markdown

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def name(page):
    return str(page.relative_to(ROOT))


OTHERS = {"libraries.md": ("transformers", "accelerate", "peft", "lightning")}
"""What pages need of the integrations extra."""


@pytest.mark.usefixtures("forget")
@pytest.mark.filterwarnings("ignore::UserWarning:lightning.*", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_python_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    if page.name in OTHERS:
        torchvision_schemas.declare()
    for library in OTHERS.get(page.name, ()):
        pytest.importorskip(library, reason="the integrations extra is not installed")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    scope = {"__name__": "docs"}
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(page), "exec"), scope)
    printed = capsys.readouterr().out
    for expected in re.findall(r"^prints\n\n```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        assert expected in printed


def commands_of(text):
    """The command lines of adalin in the blocks of a page."""
    for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("adalin "):
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_are_those_that_there_are(page):
    for words in commands_of(page.read_text()):
        command = parse(COMMANDS, words)
        if getattr(command, "plugin", ()):  # which knows more
            continue
        if hasattr(command, "benchmark"):
            kind_of(command.benchmark).example(command.benchmark, "baseline", 3)
        for method in getattr(command, "methods", ()):
            Method.parse(method)


def test_the_commands_of_the_laboratory_are_found():
    assert ["show", "runs"] in list(commands_of((DOCS / "laboratory.md").read_text()))


def test_the_recorded_rows_stay_small():
    assert sum(file.stat().st_size for file in (ROOT / "results").iterdir()) < 20_000_000


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


PUBLISHED = [
    (DOCS / "reproduction.md", "results"),
    (DOCS / "choose.md", "choice"),
    (DOCS / "foretell.md", "foretelling"),
    (ROOT / "results" / "README.md", "recorded"),
]


def test_the_numbers_of_the_readme_are_those_of_the_recorded_results(tmp_path):
    text = re.sub(r"^!\[.*", "", (ROOT / "README.md").read_text(), flags=re.MULTILINE)  # draws no pictures
    assert text.count("<!--last ") > 1
    page = tmp_path / "README.md"
    page.write_text(re.sub(r"(<!--last [^>]*-->)0\.\d\d", r"\g<1>0.00", text))
    write_markdown(read_results(ROOT / "results")[0], page)
    assert page.read_text() == text


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize(("page", "what"), PUBLISHED)
def test_published_tables_and_numbers_are_those_of_the_recorded_results(page, what, tmp_path):
    results, problems = read_results(ROOT / "results")
    assert problems == []
    assert f"<!-- end of {what} -->" in page.read_text()
    published = page.read_text()
    assert published.count("\n| ") > 15
    (tmp_path / "page.md").write_text(re.sub(r"^!\[.*", "", published, flags=re.MULTILINE))  # draws no pictures
    expected = (tmp_path / "page.md").read_text()
    write_markdown(results, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == expected
