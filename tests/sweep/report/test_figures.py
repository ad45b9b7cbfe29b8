"""Figures: what is drawn, what is refused, and that files state their origin."""

import re
from itertools import combinations
from unittest.mock import Mock

import numpy as np
import pytest
from written import MEASURED, REPLICATED, dataset, described

import solvers
from solvers import privacy
from sweep.dataset.reading import open_dataset
from sweep.errors import SweepError
from sweep.experiment.loading import load_experiment
from sweep.report import drawing, figures
from sweep.report.drawing import choose_styles
from sweep.runner import commands
from sweep.store.records import Status

OK = int(Status.OK)


def drawn(data, name, changes=None, **content):
    data, made = described(data, **content)
    return figures.draw(data, made, name, changes)


def of_figure(data, name="f", **figure):
    """The picture of one figure that an experiment declares."""
    declared = {"variable": "variance_ratio", "x": "d", **figure}
    (picture,) = drawn(data, name, figures=[{"name": name, **declared}])
    return picture


def points(axes):
    """The points of every line by its label."""
    return {str(line.get_label()): line.get_xydata().tolist() for line in axes.lines}


def notes(picture):
    """The sentences below a picture."""
    return " ".join(picture.figure.legends[0].get_title().get_text().split())


def test_a_line_has_the_means_and_the_range_of_its_replicates():
    picture = of_figure(REPLICATED)
    (axes,) = picture.figure.axes
    assert "1 of 4 points are means of those replicates that have a number." in notes(picture)
    assert list(points(axes)) == ["CA", "IP"]
    assert points(axes)["IP"] == [[4, 4], [8, 8.5]]
    (ranges,) = axes.collections
    assert [bar.tolist() for bar in ranges.get_segments()] == [[[4, 2], [4, 6]], [[8, 8], [8, 9]]]


def test_points_without_a_number_are_left_out_and_counted():
    states = [[OK, OK], [OK, int(Status.FAILED)]]
    data = dataset({"d": [4, 8], "mechanism": ["CA", "IP"]}, {"variance_ratio": 1.0}, states)
    picture = of_figure(data)
    (axes,) = picture.figure.axes
    assert points(axes)["IP"] == [[4, 1]]
    assert notes(picture) == "1 of 4 points has no number: IP failed at 8."


def sizes(values):
    """Two mechanisms over problems of several sizes; the second stops at the last."""
    stopped = int(Status.NOT_APPLICABLE)
    return dataset(
        {"attributes": ["a=1", "a=9"], "mechanism": ["CA", "IP"]},
        {"variance_ratio": np.arange(4.0).reshape(2, 2), "domain_size": np.array(values)},
        [[OK, OK], [OK, stopped]],
    )


def test_the_size_of_the_problems_is_an_axis_where_it_follows_one():
    (axes,) = of_figure(sizes([[2.0, 2.0], [50.0, np.nan]]), x="domain_size").figure.axes
    assert points(axes) == {"CA": [[2, 0], [50, 2]], "IP": [[2, 1]]}
    assert axes.get_xlabel() == "domain size"
    with pytest.raises(SweepError, match="differs along several axes"):
        of_figure(sizes([[2.0, 3.0], [50.0, np.nan]]), x="domain_size")


def test_what_varies_besides_is_named_with_the_line_or_has_panels():
    data = dataset(
        {"k": [1, 2], "d": [4, 8], "mechanism": ["CA"]},
        {"variance_ratio": np.arange(4.0).reshape(2, 2, 1)},
    )
    (axes,) = of_figure(data).figure.axes
    assert list(points(axes)) == ["CA, k = 1", "CA, k = 2"]
    split = of_figure(data, panels="k").figure.axes
    assert [axes.get_title("left") for axes in split] == ["k = 1", "k = 2"]
    assert points(split[1]) == {"CA": [[4, 2], [8, 3]]}


def test_a_declared_figure_is_drawn_by_its_name_and_can_be_changed():
    mine = [{"name": "mine", "variable": "gap", "x": "d"}]
    assert figures.choose_default(*described(MEASURED, figures=mine)) == ["mine"]
    (picture,) = drawn(
        MEASURED, "mine", {"where": "d == 4", "hue": "d", "x": "mechanism"}, figures=mine
    )
    (axes,) = picture.figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["CA", "IP", "GM"]
    assert axes.lines[0].get_linestyle() == "None"


def test_printed_numbers_are_points_in_the_colour_of_their_line():
    table = {"variable": "variance_ratio", "axes": {"d": [4, 16], "mechanism": ["IP", "HM"]}}
    tables = [
        table | {"values": [[3, 5], [4, 5]]},
        table | {"values": [[9, 9]] * 2, "reading": "x"},
    ]
    figure = {"name": "f", "variable": "variance_ratio", "x": "d"}
    (picture,) = drawn(REPLICATED, "f", figures=[figure], published=tables)
    (axes,) = picture.figure.axes
    assert list(points(axes)) == ["CA", "IP", "IP, printed"]
    assert points(axes)["IP, printed"] == [[4, 3], [16, 4]]
    of_ip, of_points = axes.lines[-2:]
    assert of_ip.get_color() == of_points.get_color()
    assert of_ip.get_marker() != of_points.get_marker()


def test_curves_of_privacy_are_those_of_the_solvers():
    data = dataset({"mechanism": ["CA", "geometric"]}, {"privacy_cost": [0.5, np.nan]})
    (picture,) = drawn(data, "privacy")
    (line,) = picture.figure.axes[0].lines
    deltas, epsilons = line.get_data()
    at = int(np.argmin(np.abs(deltas - 1e-9)))
    assert epsilons[at] == privacy.epsilon(0.5, deltas[at])
    assert notes(picture) == "1 of 2 points has no number: geometric none at any δ."
    data = dataset({"d": [4, 8], "mechanism": ["CA"]}, {"privacy_cost": 0.5})
    (picture,) = drawn(data, "privacy", {"hue": "d"})
    assert list(points(picture.figure.axes[0])) == ["d = 4", "d = 8"]


def test_the_slope_of_run_times_is_fitted_on_logarithmic_axes():
    d = np.array([8, 16, 32])
    data = dataset({"d": d, "mechanism": ["CA"]}, {"runtime_s": (d**2.5)[:, None], "gap": 0.1})
    table = {"variable": "runtime_s", "axes": {"d": [8, 16], "mechanism": ["CA"]}}
    table |= {"values": [[1], [4]]}
    (picture,) = drawn(data, "scaling", published=[table])
    assert notes(picture) == "Slopes of run times: CA 2.5; CA, printed 2.0."
    times, gaps = picture.figure.axes
    assert (times.get_xscale(), times.get_yscale()) == ("log", "log")
    assert points(gaps) == {"CA": [[8, 0.1], [16, 0.1], [32, 0.1]]}


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("ratios", {}, "did you mean 'ratio'"),
        ("ratio", {"x": "dd"}, "no coordinate 'dd'"),
        ("ratio", {"where": "d > 9"}, "holds for no cell"),
        ("utility", {}, "no numeric variable 'utility'"),
        ("profile", {}, "give the store's folder"),
        ("ratio", {"group": "ranges"}, "no group 'ranges'"),
        (
            "privacy",
            {"x": "d", "log": ("y",)},
            "figure 'privacy' has no option log, x; leave it out",
        ),
        ("many", {}, "30 lines; expected at most 20: choose cells with --where"),
    ],
)
def test_figures_that_cannot_be_drawn_are_refused(name, changes, said):
    data = MEASURED
    if name == "many":
        names = [str(n) for n in range(30)]
        data, name = dataset({"d": [4, 8], "mechanism": names}, {"variance_ratio": 1.0}), "ratio"
    with pytest.raises(SweepError, match=re.escape(said)):
        drawn(data, name, changes)


@pytest.mark.parametrize("form", drawing.FORMS)
def test_files_say_where_they_come_from_and_are_the_same_each_time(form):
    data, made = described(MEASURED)
    known = data.assign_attrs(data.attrs, git_revision="abc123")
    first, second = (figures.draw(known, made, "ratio")[0] for _ in range(2))
    content = first.written(form)
    assert content == second.written(form) == first.written(form)
    if form != "pdf":
        assert b"complete (6 cells)" in content
        assert b"abc123" in content


@pytest.mark.slow
def test_the_standard_figures_are_drawn_by_the_command_line(swept, tmp_path, command, refusal):
    swept(tmp_path, more="keep: [privacy_profile, query_variances, covariance]")
    for name in ("ratio", "profile", "variances", "covariance", "privacy", "scaling", "cost"):
        ran = command("plot", tmp_path, name, "--output", tmp_path / f"{name}.svg")
        assert ran.exit_code == 0, ran.output
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
    assert "keeps no array 'trace'" in refusal("plot", tmp_path, "convergence")
    assert "a.gif" in refusal("plot", tmp_path, "ratio", "--output", "a.gif")


def test_several_figures_for_one_file_get_a_file_each(tmp_path):
    names = ("ratio-a", "ratio-b")
    panel = drawing.Panel("", [drawing.Line("IP", [1.0], [1.0])], {})
    pictures = [drawing.draw(name, [panel]) for name in names]
    chosen = drawing.choose_files(pictures, tmp_path / "x.png")
    assert [path.name for _, path in chosen] == ["x-ratio-a.png", "x-ratio-b.png"]
    assert drawing.choose_files(pictures[:1], tmp_path / "x.png")[0][1].name == "x.png"


@pytest.mark.parametrize("error", [ImportError("nowhere"), ValueError("'nope' is no backend")])
def test_a_matplotlib_that_does_not_start_is_a_sentence(monkeypatch, error):
    monkeypatch.setattr(drawing, "import_module", Mock(side_effect=error))
    with pytest.raises(SweepError, match=rf"{error}; install .*\[plot\].* or unset MPLBACKEND"):
        drawing.check_installed()


def test_labels_of_ticks_do_not_lie_on_each_other():
    x = (0.588, 5.91, 8.38, 8.61, 11.4, 11.7)
    panel = drawing.Panel("p", [drawing.Line("a", x, x)], {"xscale": "log"})
    shown = drawing.draw("f", [panel]).figure
    shown.canvas.draw()
    boxes = [label.get_window_extent() for label in shown.axes[0].get_xticklabels()]
    assert len(boxes) > 2
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_what_a_logarithmic_axis_does_not_show_is_counted():
    data = dataset({"d": [4, 8], "mechanism": ["CA"]}, {"gap": [[0.0], [0.1]]})
    picture = of_figure(data, variable="gap", log="y")
    assert notes(picture) == (
        "1 of 2 points is at 0 or below, where a logarithmic axis does not reach."
    )


def look(line):
    return line.get_color(), line.get_marker(), line.get_markerfacecolor()


def test_a_mechanism_has_one_colour_and_marker_of_its_own_in_every_figure():
    names = [*solvers.all_mechanisms(), "HM (sqrt)", "SM-II (published)", "mine", "theirs"]
    styles = choose_styles(names)
    colours = {drawing.COLOURS[number % len(drawing.COLOURS)] for number in styles.values()}
    assert len(colours) == min(len(names), len(drawing.COLOURS)) >= 20
    assert len(set(styles.values())) == len(names)
    both = choose_styles(["GM", "IP", "mine", "SM-II (published)"])
    alone = choose_styles(["SM-II (published)", "mine", "IP"])
    assert {name: both[name] for name in alone} == alone
    assert len(set(choose_styles(map(str, range(99))).values())) == 99
    assert list(choose_styles(["d = 8", "d = 4"]).values()) == [0, 1]


def test_a_mechanism_keeps_its_style_whatever_cells_are_chosen():
    names = ["CA", *(f"mine {number}" for number in range(12))]
    data = dataset({"d": [4, 8], "mechanism": names}, {"variance_ratio": 1.0})
    (whole,), (part,) = (
        drawn(data, "ratio", {"where": where})
        for where in (None, "mechanism in ['mine 11', 'mine 3']")
    )
    looks = {line.get_label(): look(line) for line in whole.figure.axes[0].lines}
    for line in part.figure.axes[0].lines:
        assert look(line) == looks[line.get_label()]


def test_lines_of_a_mechanism_differ_in_line_style_only():
    data = dataset(
        {"targets": ["uniform", "important"], "d": [4, 8], "mechanism": ["CA", "IP", "mine"]},
        {"variance_ratio": np.arange(12.0).reshape(2, 2, 3)},
    )
    (axes,) = of_figure(data).figure.axes
    styles = {tuple(str(line.get_label()).split(", ")): line for line in axes.lines}
    assert len({look(line) for line in axes.lines}) == 3
    for targets in ("uniform", "important"):
        lines = [styles[name, f"targets = {targets}"] for name in ("CA", "IP", "mine")]
        assert len({line.get_linestyle() for line in lines}) == 1
    assert styles["CA", "targets = uniform"].get_linestyle() != lines[0].get_linestyle()
    (legend,) = of_figure(data).figure.legends
    entries = ["CA", "IP", "mine", "targets = uniform", "targets = important"]
    assert [text.get_text() for text in legend.get_texts()] == entries


def test_lines_differ_in_colour_where_line_styles_do_not_suffice():
    data = dataset(
        {"k": list(range(8)), "d": [4, 8], "mechanism": ["CA"]},
        {"variance_ratio": np.arange(16.0).reshape(8, 2, 1)},
    )
    (axes,) = of_figure(data).figure.axes
    assert len({look(line) for line in axes.lines}) == len(axes.lines) == 8


def many_lines():
    mechanisms = ["IP", "GM", "HM", "CA", "a mechanism with a rather long label", "optimal"]
    targets = ["uniform", "important"]
    return dataset(
        {"targets": targets, "d": [8, 16, 32], "mechanism": mechanisms},
        {"runtime_s": np.arange(1, 37.0).reshape(2, 3, 6), "gap": 0.1, "variance_ratio": 1.0},
    )


@pytest.mark.parametrize(
    ("name", "size"), [("ratio", None), ("ratio", (3.4, 2.4)), ("scaling", None)]
)
def test_the_legend_leaves_room_and_lies_on_nothing(name, size):
    (picture,) = drawn(many_lines(), name, {"size": size})
    figure = picture.figure
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert box.width * box.height < whole.width * whole.height / 2.5
    assert whole.fully_contains(*box.min + 1)
    assert whole.fully_contains(*box.max - 1)
    others = [axes.get_tightbbox() for axes in figure.axes]
    others += [text.get_window_extent() for text in figure.texts if text.get_text()]
    assert not any(box.overlaps(other) for other in others)
    assert all(axes.bbox.height > 0.2 * whole.height for axes in figure.axes)
    assert notes(picture).startswith("Slopes of run times") == (name == "scaling")


def test_a_figure_that_is_too_small_for_its_legend_and_notes_is_refused():
    with pytest.raises(SweepError, match=r"no room for panels.*give a --size of at least 3x"):
        drawn(many_lines(), "scaling", {"size": (3.0, 1.5)})


@pytest.mark.parametrize("count", [6, 20])
@pytest.mark.parametrize("size", [None, (3.4, 2.4)])
def test_names_below_an_axis_do_not_touch(count, size):
    names = [f"mechanism {number}" for number in range(count)]
    data = dataset({"mechanism": names}, {"variance_ratio": np.arange(1.0, count + 1)})
    (picture,) = drawn(data, "ratio", {"size": size})
    picture.figure.draw_without_rendering()
    labels = picture.figure.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == names
    apart = np.diff([label.get_window_extent().x1 for label in labels]).min()
    turn = np.radians(labels[0].get_rotation())
    height = labels[0].get_fontsize() / 72 * picture.figure.dpi
    upright = max(label.get_window_extent().width for label in labels)
    assert apart > (height / np.sin(turn) if turn else upright)


def test_title_size_and_digits_can_be_asked_for(swept, tmp_path, command, refusal):
    swept(tmp_path / "store")
    words = ("plot", tmp_path / "store", "cost", "--output", tmp_path / "x.svg")
    assert command(*words, "--title", "mine", "--size", "3.5x2", "--digits", "2").exit_code == 0
    text = (tmp_path / "x.svg").read_text()
    assert 'width="252pt"' in text  # 3.5 inches
    assert "<dc:title>mine</dc:title>" in text
    assert "expected WIDTHxHEIGHT in inches" in refusal(*words, "--size", "wide")


SHIPPED = {
    "vldb-fig1": [],
    "vldb-table2": ["d=2,4"],
    "kdd16-fig1": ["d=16", "m=32", "mechanism=COA 30"],
    "kdd16-fig4": ["d=64,128", "m=64", "mechanism=GM,IP,CA"],
    "kdd16-fig10": ["d=128", "mechanism=IP,CA"],
    "kdd16-fig11": ["d=128", "m=32,64", "mechanism=CA"],
    "kdd16-fig12": ["d=32,64", "mechanism=CA"],
    "post13-fig2": [],
    "post13-fig3": [],
    "post13-fig4": ["epsilon=0.8,1.0"],
    "post13-fig6b": ["epsilon=1.2,1.3"],
    "fisher-fig1": [],
    "fisher-fig2": [],
}
"""Experiments that draw a figure of a paper, cut to sizes that take a second."""


QUICK = ("vldb-fig1", "kdd16-fig4", "post13-fig2", "fisher-fig1")
MARKED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SHIPPED]


@pytest.mark.parametrize("name", MARKED)
def test_the_figure_of_a_paper_is_what_its_experiment_draws_by_default(name, tmp_path, client):
    experiment = load_experiment(name, SHIPPED[name])
    commands.run(experiment, tmp_path / "s", client)
    results = open_dataset(tmp_path / "s")
    drawn = figures.choose_default(results, experiment)
    assert drawn == [figure.name for figure in experiment.figures]
    for figure in drawn:
        for picture in figures.draw(results, experiment, figure, store=tmp_path / "s"):
            axes = picture.figure.axes
            shown = [y for one in axes for line in one.lines for y in line.get_ydata()]
            assert len(shown) >= 2
            assert np.isfinite(shown).all()
            assert picture.written("png").startswith(b"\x89PNG")
