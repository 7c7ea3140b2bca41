"""Curves as pictures, and the styles that tell methods apart."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from adalin.methods import Method
from adalin.report import curves_figure, draw_curves, save_figure, share_accuracies, summarise
from adalin.report._figure import DASHES
from adalin.report._page_data import SYMBOLS
from adalin.report._style import COLOURS, MARKERS, STYLES, Style, style_of, styles_of
from adalin.studies import MAIN_METHODS, recipes
from made_results import make_result, with_accuracies


def lines_of(results, **options):
    (axes,) = curves_figure(summarise(results), title="title", **options).axes
    return {line.get_label(): line for line in axes.lines}


def test_a_line_is_the_mean_over_seeds_with_tasks_from_one():
    lines = lines_of([with_accuracies([0.2, 0.4]), with_accuracies([0.4, 0.8], seed=4), with_accuracies([0.1], "tanh")])
    np.testing.assert_allclose(lines["ReLU"].get_xydata(), [[1, 0.3], [2, 0.6]])
    np.testing.assert_allclose(lines["Tanh"].get_xydata(), [[1, 0.1]])


def test_the_band_is_one_standard_deviation():
    figure = curves_figure(summarise([with_accuracies([0.2] * 3), with_accuracies([0.4] * 3, seed=4)]), title="")
    (band,) = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.3 - 0.02**0.5, 0.3 + 0.02**0.5))


def test_settings_of_one_method_differ_in_shade_and_marker_and_say_what_differs():
    lines = lines_of([with_accuracies([0.1], "fourier", lr=lr) for lr in (0.1, 0.01, 0.001)])
    assert list(lines) == [f"Deep Fourier, lr {lr}" for lr in (0.1, 0.01, 0.001)]
    colours = [to_hex(line.get_color()).upper() for line in lines.values()]
    assert colours[0] == STYLES["fourier"].colour
    assert len(set(colours)) == len({line.get_marker() for line in lines.values()}) == 3
    assert {line.get_linestyle() for line in lines.values()} == {"-"}


def test_what_has_no_such_number_is_left_out():
    runs = [make_result("adalin"), make_result(rows=0), make_result("fourier", rows=0, state="diverged")]
    assert list(lines_of(runs)) == ["AdaLin (ReLU)"]
    assert list(lines_of(runs, metric="srank")) == ["AdaLin (ReLU)"]
    assert lines_of(runs, metric="test_accuracy") == {}


def test_a_diverged_seed_ends_in_a_cross_and_the_line_goes_on_without_it():
    diverged = with_accuracies([0.4], seed=4, tasks=2, state="diverged")
    (axes,) = curves_figure(summarise([with_accuracies([0.2, 0.6]), diverged]), title="").axes
    line, cross = axes.lines
    np.testing.assert_allclose(line.get_ydata(), [0.3, 0.6])
    assert cross.get_marker() == "X"
    np.testing.assert_allclose(cross.get_xydata(), [[1, 0.4]])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ReLU", "lost: the run diverged"]


def test_lines_lie_above_all_bands():
    results = [
        with_accuracies([value] * 3, method, seed)
        for method, value in (("baseline", 0.2), ("adalin", 0.3))
        for seed in (3, 4)
    ]
    (axes,) = curves_figure(summarise(results), title="").axes
    assert max(band.get_zorder() for band in axes.collections) < min(line.get_zorder() for line in axes.lines)


def test_panels_of_accuracies_share_their_scale():
    panels = Figure().subplots(1, 2)
    for axes, value in zip(panels, (0.2, 0.9), strict=True):
        draw_curves(axes, summarise([with_accuracies([value] * 3)]))
    share_accuracies(panels)
    assert {axes.get_ylim() for axes in panels} == {(0, 1)}


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.PDF", b"%PDF"), ("x.svg", b"<?xml")])
def test_the_ending_of_a_name_is_the_format(tmp_path: Path, name: str, start: bytes):
    save_figure(curves_figure(summarise([make_result()]), title="title", note="note"), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_picture_in_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    figure = curves_figure(summarise([make_result()]), title="title")
    with pytest.raises(ValueError, match=r"there is no folder .*typo for x\.png; make it first"):
        save_figure(figure, tmp_path / "typo" / "x.png")
    assert list(tmp_path.iterdir()) == []


# Styles


def test_methods_of_the_main_figure_have_colours_and_markers_of_their_own():
    styles = [style_of(method) for method in MAIN_METHODS]
    assert len({style.colour for style in styles}) == len({style.marker for style in styles}) == len(MAIN_METHODS)


def test_no_two_methods_of_a_panel_look_alike():
    for recipe in recipes().values():
        for part in recipe.parts:
            looks = {(style.colour, style.dash) for style in styles_of(part.methods)}
            assert len(looks) == len(part.methods), (recipe.name, part.methods)


def test_no_two_methods_with_a_style_of_their_own_look_alike():
    assert len({(style.colour, style.dash) for style in STYLES.values()}) == len(STYLES)


def test_dashes_are_for_bases_that_stand_beside_their_adalin():
    dashed = {method: style.colour for method, style in STYLES.items() if style.dash == "dash"}
    assert dashed == {method: STYLES[f"adalin-{method}"].colour for method in dashed}
    assert dashed


def test_a_method_has_one_style_with_every_optimiser():
    assert style_of("adam+adalin-tanh") == style_of("adamw:lr=0.1+adalin-tanh") == STYLES["adalin-tanh"]
    assert style_of("adam+tanh+l2") == style_of("tanh+l2")


def test_every_style_belongs_to_a_method_and_can_be_drawn():
    for method, style in STYLES.items():
        assert str(Method.parse(method)) == method
        assert style.dash in DASHES
        assert style.marker in SYMBOLS
    assert set(MARKERS) == SYMBOLS.keys()


def test_a_method_without_a_style_of_its_own_looks_the_same_everywhere():
    assert style_of("mine") == style_of("mine")
    assert style_of("mine") in {Style(colour, marker=marker) for colour in COLOURS for marker in MARKERS}
    assert len({style_of(f"mine{number}") for number in range(20)}) > 10
