"""What people look at: progress, tables, figures, the page; and the files and statistics behind them."""

from adalin.report._archive import read_archive, read_results, unpack_results, write_results
from adalin.report._contact_sheet import contact_sheet
from adalin.report._figure import (
    check_figure_path,
    curves_figure,
    draw_curves,
    legend_of,
    save_figure,
    share_accuracies,
)
from adalin.report._files import check_parent, replaced
from adalin.report._loggers import open_loggers
from adalin.report._page import PageTitles, Picture, write_page
from adalin.report._page_origin import short_commits
from adalin.report._progress import RunProgress
from adalin.report._statistics import (
    LEAST_TASKS,
    MARGIN,
    NEAR_CHANCE,
    Interval,
    Plasticity,
    Values,
    end_window,
    fall_from_best,
    mean_interval,
    plasticity,
    plasticity_slope,
    relative_change,
    t_interval,
)
from adalin.report._style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    STYLES,
    VERMILION,
    Style,
    style_of,
    styles_of,
)
from adalin.report._summary import Summary, by_benchmark, label_runs, mean_and_deviation, summarise
from adalin.report._table import latex_table, markdown_table, mean_text, results_table, short_number, spread
from adalin.report._verdict import Finding, Judgement, Outcome, Verdict, all_of
from adalin.report._watch import status_json, status_view

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "LEAST_TASKS",
    "MARGIN",
    "NEAR_CHANCE",
    "ORANGE",
    "PURPLE",
    "STYLES",
    "VERMILION",
    "Finding",
    "Interval",
    "Judgement",
    "Outcome",
    "PageTitles",
    "Picture",
    "Plasticity",
    "RunProgress",
    "Style",
    "Summary",
    "Values",
    "Verdict",
    "all_of",
    "by_benchmark",
    "check_figure_path",
    "check_parent",
    "contact_sheet",
    "curves_figure",
    "draw_curves",
    "end_window",
    "fall_from_best",
    "label_runs",
    "latex_table",
    "legend_of",
    "markdown_table",
    "mean_and_deviation",
    "mean_interval",
    "mean_text",
    "open_loggers",
    "plasticity",
    "plasticity_slope",
    "read_archive",
    "read_results",
    "relative_change",
    "replaced",
    "results_table",
    "save_figure",
    "share_accuracies",
    "short_commits",
    "short_number",
    "spread",
    "status_json",
    "status_view",
    "style_of",
    "styles_of",
    "summarise",
    "t_interval",
    "unpack_results",
    "write_page",
    "write_results",
]
