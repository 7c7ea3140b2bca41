"""What people look at: progress, tables, figures."""

from adalin.report._figure import accuracy_figure, save_figure
from adalin.report._progress import RunProgress, duration
from adalin.report._summary import Summary, summarise
from adalin.report._table import results_table

__all__ = ["RunProgress", "Summary", "accuracy_figure", "duration", "results_table", "save_figure", "summarise"]
