"""Results as a table: for the terminal, in Markdown, in LaTeX."""

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from adalin.report._statistics import Values
from adalin.report._summary import Summary
from adalin.runs import Result


def results_table(summaries: Sequence[Summary], title: str) -> Table:
    """Per setting: how many tasks count, the score in the first and last of them and over all, how far its runs are."""
    heads, rows = _cells(summaries)
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(heads[0], overflow="fold")
    for name in heads[1:-1]:
        table.add_column(name, justify="right")
    table.add_column(heads[-1])
    for summary, cells in zip(summaries, rows, strict=True):
        table.add_row(*map(Text, (summary.label, *cells)))  # rich would look for emojis in each str, again and again
    return table


def markdown_table(summaries: Sequence[Summary], title: str) -> str:
    """The same in Markdown, with the methods' titles."""
    heads, rows = _cells(summaries)
    lines = [heads, ["---", *["---:"] * (len(heads) - 2), "---"]]
    lines += [[summary.title, *cells] for summary, cells in zip(summaries, rows, strict=True)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
    return f"**{title}**\n\n{table}\n"


def latex_table(summaries: Sequence[Summary], title: str) -> str:
    """The same in LaTeX, for the package booktabs."""
    heads, rows = _cells(summaries)
    lines = [[summary.title, *cells] for summary, cells in zip(summaries, rows, strict=True)]
    head, *body = ["  " + " & ".join(map(_to_latex, line)) + r" \\" for line in [heads, *lines]]
    columns = "l" + "r" * (len(heads) - 2) + "l"
    begin = [r"\begin{table}", rf"  \caption{{{_to_latex(title)}}}", rf"  \begin{{tabular}}{{{columns}}}"]
    rules = [r"  \toprule", head, r"  \midrule", *body, r"  \bottomrule"]
    return "\n".join([*begin, *rules, r"  \end{tabular}", r"\end{table}", ""])


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def _to_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _cells(summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """The heads of all columns, and of each setting all cells but the first, which names it."""
    test_score = summaries[0].run.description.test_score if summaries else ""
    tested = any(summary.has(test_score) for summary in summaries)
    task = summaries[0].run.description.task_name if summaries else "task"
    heads = ["method", "seeds", f"{task}s", "first", "last", f"all {task}s"]
    if tested:
        heads.append(f"all {task}s, {test_score.partition('_')[0]}")
    rows = []
    for summary in summaries:
        values = summary.scores()
        cells = [str(len(summary.results)), str(summary.tasks)]
        if summary.tasks:
            cells += [mean_text(values[:, 0]), mean_text(values[:, -1])]
        else:
            cells += ["-", "-"]
        cells.append(spread(summary.total()))
        if tested:
            cells.append(spread(summary.total(test_score)))
        states = dict.fromkeys(state_text(result) for result in summary.results)
        rows.append([*cells, ", ".join(states)])
    return [*heads, "runs"], rows


def state_text(result: Result) -> str:
    """How far a run is, in a few words."""
    position = result.position
    task_name = result.run.description.task_name
    if result.state == "diverged":
        return f"diverged ({task_name} {position.task + 1}, step {position.step})"
    return "done" if result.state == "done" else f"{position.task}/{result.run.tasks} {task_name}s"


def mean_text(values: Values) -> str:
    """The mean of those values that are numbers."""
    values = values[np.isfinite(values)]
    return short_number(values.mean()) if len(values) else "-"


def spread(values: Values) -> str:
    """Mean and sample standard deviation; of one value, the value alone."""
    if len(values) < 2:
        return mean_text(values)
    mean, deviation = values.mean(), values.std(ddof=1)
    return f"{short_number(mean)} ± {short_number(deviation, like=mean)}"


def short_number(value: float, *, like: float | None = None) -> str:
    """Accuracies with three digits, returns without any; a deviation `like` its mean."""
    return f"{value:.3f}" if abs(value if like is None else like) < 10 else f"{value:,.0f}"
