"""What people look at: progress, tables, figures."""

from adalin.report._figure import check_figure_path, curves_figure, save_figure
from adalin.report._progress import RunProgress, duration
from adalin.report._summary import Summary, mean_and_deviation, summarise
from adalin.report._table import results_table

__all__ = [
    "RunProgress",
    "Summary",
    "check_figure_path",
    "curves_figure",
    "duration",
    "mean_and_deviation",
    "results_table",
    "save_figure",
    "summarise",
]
