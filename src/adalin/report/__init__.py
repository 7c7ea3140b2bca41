"""What people look at: progress, tables, figures, the page; and the files and statistics behind them."""

from adalin.report._archive import read_archive, read_results, unpack_results, write_results
from adalin.report._contact_sheet import contact_sheet
from adalin.report._figure import check_figure_path, curves_figure, draw_curves, save_figure
from adalin.report._loggers import open_loggers
from adalin.report._page import PageTitles, Picture, write_page
from adalin.report._progress import RunProgress, duration
from adalin.report._statistics import (
    Interval,
    bootstrap_mean,
    hierarchical_bootstrap,
    paired_test,
    plasticity_slope,
)
from adalin.report._summary import SWEEP_SEEDS, Summary, by_benchmark, mean_and_deviation, summarise, summarise_all
from adalin.report._table import results_table
from adalin.report._verdict import Finding, Verdict
from adalin.report._watch import status_json, status_view

__all__ = [
    "SWEEP_SEEDS",
    "Finding",
    "Interval",
    "PageTitles",
    "Picture",
    "RunProgress",
    "Summary",
    "Verdict",
    "bootstrap_mean",
    "by_benchmark",
    "check_figure_path",
    "contact_sheet",
    "curves_figure",
    "draw_curves",
    "duration",
    "hierarchical_bootstrap",
    "mean_and_deviation",
    "open_loggers",
    "paired_test",
    "plasticity_slope",
    "read_archive",
    "read_results",
    "results_table",
    "save_figure",
    "status_json",
    "status_view",
    "summarise",
    "summarise_all",
    "unpack_results",
    "write_page",
    "write_results",
]
