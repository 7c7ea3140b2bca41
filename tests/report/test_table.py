"""The table that the terminal shows."""

from rich.console import Console

from adalin.report import latex_table, markdown_table, results_table, summarise
from made_results import make_result, with_accuracies


def cells_of(*results):
    """The texts of a table, its heads first."""
    table = results_table(summarise(results), "title")
    columns = [list(map(str, column.cells)) for column in table.columns]
    return [[str(column.header) for column in table.columns], *map(list, zip(*columns, strict=True))]


def test_one_seed_has_no_deviation_and_two_have_the_sample_deviation():
    _, one = cells_of(with_accuracies([0.2, 0.4]))
    assert one == ["baseline", "1", "2", "0.200", "0.400", "0.300", "done"]
    _, two = cells_of(with_accuracies([0.2, 0.4]), with_accuracies([0.4, 0.6], seed=4))
    assert two == ["baseline", "2", "2", "0.300", "0.500", "0.400 ± 0.141", "done"]


def test_states_of_runs_are_told():
    runs = [
        with_accuracies([0.2, 0.4]),
        with_accuracies([0.6], seed=4, tasks=2, state="diverged"),
        with_accuracies([], seed=5, tasks=2, state="diverged"),
    ]
    _, row = cells_of(*runs)
    assert row == [
        *("baseline", "3", "2", "0.267", "0.133", "0.200 ± 0.173"),
        "done, diverged (task 2, step 7), diverged (task 1, step 7)",
    ]
    _, row = cells_of(with_accuracies([0.2], tasks=9))
    assert (row[2], row[-1]) == ("1", "1/9 tasks")


def test_runs_without_rows_have_dashes_and_zeros_if_they_diverged():
    _, row = cells_of(with_accuracies([], tasks=9, state="running"))
    assert row[:-1] == ["baseline", "1", "0", "-", "-", "-"]
    _, row = cells_of(with_accuracies([], tasks=9, state="diverged"))
    assert row[:-1] == ["baseline", "1", "9", "0.000", "0.000", "0.000"]


def test_test_accuracy_has_a_column_if_any_run_has_it():
    tested = make_result("adalin", tasks=2)
    for row in tested.rows:
        row["test_accuracy"] = 0.5
    heads, adalin, baseline = cells_of(tested, make_result(tasks=2))
    assert heads[6] == "all tasks, test"
    assert (adalin[6], baseline[6]) == ("0.500", "-")
    assert "all tasks, test" not in cells_of(make_result(tasks=2))[0]


def test_a_table_without_runs_is_printed():
    console = Console(width=80)
    with console.capture() as text:
        console.print(results_table([], "nothing"))
    assert "nothing" in text.get()


# For pages and papers


def test_markdown_has_the_titles_and_the_cells_of_the_terminal():
    lines = markdown_table(summarise([with_accuracies([0.2, 0.4], "adalin-tanh")]), "On MNIST").splitlines()
    assert lines == [
        "**On MNIST**",
        "",
        "| method | seeds | tasks | first | last | all tasks | runs |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        "| AdaLin (Tanh) | 1 | 2 | 0.200 | 0.400 | 0.300 | done |",
    ]


def test_latex_is_a_booktabs_table_whose_special_characters_are_escaped():
    results = [with_accuracies([0.2, 0.4], "shrink-perturb", seed) for seed in (3, 4)]
    lines = latex_table(summarise(results), "100 % of a_b^c\\d").splitlines()
    assert lines == [
        r"\begin{table}",
        r"  \caption{100 \% of a\_b\textasciicircum{}c\textbackslash{}d}",
        r"  \begin{tabular}{lrrrrrl}",
        r"  \toprule",
        r"  method & seeds & tasks & first & last & all tasks & runs \\",
        r"  \midrule",
        r"  Shrink \& Perturb & 2 & 2 & 0.200 & 0.400 & 0.300 $\pm$ 0.000 & done \\",
        r"  \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
