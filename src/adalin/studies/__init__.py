"""Studies: the paper's experiments, one recipe each, sweeps, and what the results say about its claims."""

from adalin.studies._claims import CLAIMS, Claim, judge_claims
from adalin.studies._compare import compare, compare_all
from adalin.studies._monitor import (
    controls,
    snapshots_of,
    validation,
    validation_figure,
    validation_lines,
    write_validation,
)
from adalin.studies._numbers import fill_numbers
from adalin.studies._paper import MAIN_BENCHMARKS, MAIN_METHODS, REPORT_SEEDS, SWEEP_SEEDS, hyper_parameters
from adalin.studies._publish import MARKS, publish, save_picture, write_markdown
from adalin.studies._recipes import BUDGETS, Recipe, StreamPart, get_recipe, recipes
from adalin.studies._search import Point, Search
from adalin.studies._story import Course, Story, draw_story, tell_story
from adalin.studies._sweep import Choice, GridPoint, choose, report_runs, sweep_runs, sweep_table

__all__ = [
    "BUDGETS",
    "CLAIMS",
    "MAIN_BENCHMARKS",
    "MAIN_METHODS",
    "MARKS",
    "REPORT_SEEDS",
    "SWEEP_SEEDS",
    "Choice",
    "Claim",
    "Course",
    "GridPoint",
    "Point",
    "Recipe",
    "Search",
    "Story",
    "StreamPart",
    "choose",
    "compare",
    "compare_all",
    "controls",
    "draw_story",
    "fill_numbers",
    "get_recipe",
    "hyper_parameters",
    "judge_claims",
    "publish",
    "recipes",
    "report_runs",
    "save_picture",
    "snapshots_of",
    "sweep_runs",
    "sweep_table",
    "tell_story",
    "validation",
    "validation_figure",
    "validation_lines",
    "write_markdown",
    "write_validation",
]
