"""Experiment files: what they say, and the line and key of every mistake."""

from pathlib import Path

import numpy as np
import pytest
from pages import blocks

from sweep.errors import ExperimentError
from sweep.experiment.files import list_experiments
from sweep.experiment.loading import load_experiment, parse_experiment
from sweep.grid.expansion import expand

GOOD = """\
name: small            # line 1
reference: IP
blocks:
  - workload: {name: prefix, d: [4, 8]}
    targets: uniform
    mechanism: [IP, CA]
"""


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_file_says_all_there_is():
    read = parse_experiment(
        "title: A title\nsource: A paper\nepsilon: 0.5\ndelta: [1e-5, 1e-9]\nkeep: covariance\n"
        "time_limit: 60\nsimulate: 10\n" + GOOD,
        "folder/other.yaml",
    )
    assert (read.name, read.title, read.source) == ("small", "A title", "A paper")
    assert (read.epsilon, read.delta) == ((0.5,), (1e-5, 1e-9))
    assert (read.keep, read.time_limit, read.simulate) == (("covariance",), 60.0, 10)
    (block,) = read.blocks
    assert block.group == "prefix"
    assert block.workload.params == {"d": [4, 8]}
    assert [mechanism.shown for mechanism in block.mechanism] == ["IP", "CA"]


def test_the_digest_depends_on_content_and_not_on_looks():
    plain = parse_experiment(GOOD, "x.yaml")
    spaced = parse_experiment(
        GOOD.replace("# line 1", "# a comment").replace("[4, 8]", "[4,  8]"), "x"
    )
    assert plain.digest == spaced.digest
    assert plain.digest != parse_experiment(changed("8]", "16]"), "x.yaml").digest


def test_a_block_may_begin_with_the_keys_of_another():
    merged = parse_experiment(
        GOOD.replace("  - workload", "  - &first\n    workload")
        + "  - {<<: *first, mechanism: GM, replicates: 2}\n",
        "x.yaml",
    )
    block = "{workload: {name: prefix, d: [4, 8]}, targets: uniform, mechanism: GM, replicates: 2}"
    assert merged.digest == parse_experiment(f"{GOOD}  - {block}\n", "x.yaml").digest


MISTAKES = """
7 | not valid YAML | + ---
7 | duplicate key 'name' | + name: b
7 epsilom | no such key; did you mean 'epsilon'? | + epsilom: 1
6 blocks[0].mechanism | is empty | [IP, CA] => []
6 blocks[0].mechanism[1] | needs 'name' | CA] => {tol: 1}]
4 blocks[0].workload | should be keys, each with a value, not 5 | {name: prefix, d: [4, 8]} => 5
7 simulate | one draw has no variance; expected 0 or at least 2 | + simulate: 1
7 keep[0] | should be 'query_variances' | + keep: [all]
7 epsilon[1] | the value is nan; expected a finite | + epsilon: [1, .nan]
4 blocks[0].workload.d[1] | the value is datetime | 8] => 2000-01-01]
7 epsilon | should be greater than 0 | + epsilon: -1
7 epsilon | holds a value twice; write each value once | + epsilon: [1, 1.00000000000001]
1 name | should match pattern '^[A-Za-z0-9][A-Za-z0-9._-]*$', not 'a/b' | small => a/b
4 blocks[0].workload.name | 'prefix'? | prefix => prefx
4 blocks[0].workload.dd | did you mean 'd'? | prefix, d: => prefix, dd:
4 blocks[0].workload.d | 8.5; expected a whole number | 8] => 8.5]
4 blocks[0].workload.d | axis 'd' holds 4 twice | 8] => 4]
4 blocks[0].workload.d | this axis has no values | [4, 8] => []
5 blocks[0].targets | must be positive and finite | uniform => {name: uniform, value: -1}
5 blocks[0].targets | 'random' twice; label one of them | uniform => [random, random]
6 blocks[0].mechanism[1].name | did you mean 'CA'? | CA] => CAA]
6 blocks[0].mechanism[1].t2_rule | expected paper or code | CA] => {name: SM-II, t2_rule: paaper}]
6 blocks[0].mechanism[1].preset | did you mean 'published'? | CA] => {name: COA, preset: publish}]
6 blocks[0].mechanism[1] | label one of them differently | CA] => IP]
6 blocks[0].mechanism[0].name | does not apply to a query matrix | [IP, CA] => lp-optimal
7 blocks[0].options.tol | mechanism 'IP' does not take 'tol' | +     options: {tol: 1e-3}
7 blocks[0].where | 'dd', which has no value here; expected one of: | +     where: dd > 4
7 blocks[0].where | group 'prefix' has no cells | +     where: d > 100
6 blocks[0].mechanism | group 'prefix' has no cells | [IP, CA] => {name: nonesuch, when: available}
7 blocks[0].zip[0] | 'm' is not an axis | +     zip: [[d, m]]
7 warm_start | 'd' | + warm_start: dd
2 reference | 'SM-II'? | reference: IP => reference: SMII
2 reference | is labelled 'IP'; expected one of: mine | IP, => {name: IP, label: mine},
5 blocks[0].targets.value | 1.0 twice | uniform => {name: uniform, value: [1, 1.00000000000001]}
5 blocks[0].targets[1].low | is an axis, but | uniform => [uniform, {name: random, low: [1, 2]}]
4 blocks[0] | mechanism=again are the same cell | CA] => {name: IP, label: again}]
7 blocks[0].where | expected comparisons | +     where: __import__('os').getcwd() == ''
4 blocks[0].workload | needs parameter 'd' | , d: [4, 8] =>
7 claims[0].at.size | no coordinate 'size' | + claims: [{text: t, variable: gap, at: {size: 2}}]
7 claims[0].at.d | d is never 3 | + claims: [{text: t, variable: gap, at: {d: [4, 3]}}]
7 claims[0].over | mechanism is never 'GM' | + claims: [{text: t, variable: gap, over: GM}]
7 claims[0].group | no group is called 'range' | + claims: [{text: t, variable: gap, group: range}]
7 claims[0] | expected 'variable' with 'least', 'most' or both | + claims: [{text: t}]
7 claims[0] | 'least', 2, exceeds 'most', | + claims: [{text: t, variable: gap, least: 2, most: 1}]
7 figures[0].x | there is no coordinate 'dd' | + figures: [{variable: gap, x: dd}]
7 figures[0].log | should be 'x' or 'y' | + figures: [{variable: gap, x: d, log: z}]
7 blocks[0].neighbours | expected 'add-remove', 'replace-one' | +     neighbours: replace
7 blocks[0].neighbours | no values | +     neighbours: []
"""

"""Line and key in the message, further words of it, and the edit of `GOOD`."""

WHOLE_MISTAKES = [
    ("- 1\n", "x.yaml: not a mapping; expected keys, each"),
    ("name: a\n", "x.yaml: needs 'blocks'"),
    ("blocks: []\n", "x.yaml, line 1, blocks: is empty; expected at least one"),
    (changed("    mechanism: [IP, CA]\n", ""), "x.yaml, line 4, blocks[0]: needs 'mechanism'"),
    (
        GOOD + "published:\n  - variable: gap\n    axes: {d: [4, 8]}\n    values: [1]\n",
        "x.yaml, line 8, published[0]: values do not match the axes; expected 2 (d)",
    ),
    (
        changed("prefix, d: [4, 8]", "range, d: [4, 8], m: [1, 2, 3]") + "    zip: [[d, m]]\n",
        "here d has 2, m has 3",
    ),
    (
        GOOD + "  - {workload: {name: prefix, d: 4}, mechanism: {name: CA, tol: 0.1}}\n",
        "has a different cell at d=4, mechanism=CA",
    ),
    (
        GOOD + "  - {workload: {name: range, d: 4, m: 2}, mechanism: IP, group: prefix}\n",
        "another block of group 'prefix' has a coordinate 'm'",
    ),
]


def refused(text):
    with pytest.raises(ExperimentError) as raised:
        expand(parse_experiment(text, "x.yaml"))
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_names_line_and_key_before_anything_runs(mistake):
    place, words, edit = mistake.split(" | ")
    old, changes, new = edit.partition(" =>")
    message = refused(changed(old, new.strip()) if changes else f"{GOOD}{edit[2:]}\n")
    line, _, key = place.partition(" ")
    assert message.startswith(f"x.yaml, line {line}{', ' if key else ''}{key}: ")
    assert words in message


ON_LINES = """\
blocks:
  - workload:
      name: {workload}
{parameters}
    targets: uniform
    mechanism: IP
"""


@pytest.mark.parametrize(
    ("workload", "parameters", "blamed"),
    [
        ("marginals", ["attributes: 3", "values: 2", "orders: [5]"], "orders"),
        ("marginals", ["attributes: 3", "values: [2, 2]"], "values"),
        ("marginals", ["attributes: 3", "values: [2, 0, 2]", "orders: [1]"], "values"),
        ("marginals", ["attributes: 3", "subsets: [[0], [7]]"], "subsets"),
        ("marginals", ["attributes: 3", "orders: [1]", "containing: 3"], "containing"),
        ("marginals", ["attributes: 3", "prefixes: [0]", "ranges: [0]"], "ranges"),
        ("census", ["attributes: {age: 3}", "tables: [[sex]]"], "tables"),
        ("census", ["tables: [[age]]", "attributes: {age: 0}"], "attributes"),
        ("kronecker", ["terms: [['prefix:4', 'identty:2']]"], "terms"),
        ("average", ["n: 3", "weights: [1.0, 2.0]"], "weights"),
        ("wmarginal", ["m: 3", "d: 12", "sizes: [5, 2]"], "sizes"),
        ("random", ["d: 4", "probability: 2"], "probability"),
        ("file", ["array: x", "path: {matrices}"], "array"),
    ],
)
def test_a_mistake_that_building_finds_names_the_line_of_its_parameter(
    workload, parameters, blamed, tmp_path
):
    matrices = tmp_path / "matrices.npz"
    np.savez(matrices, one=np.eye(2), two=np.eye(3))
    text = "\n".join(f"      {line}" for line in parameters).replace("{matrices}", str(matrices))
    number = next(n for n, line in enumerate(parameters) if line.startswith(blamed))
    message = refused(ON_LINES.format(workload=workload, parameters=text))
    place = f"x.yaml, line {4 + number}, blocks[0].workload.{blamed}: "
    assert message.startswith(place), message


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ("{name: by-group,\n      values: {0: 1.0, x: 1.0}}", "line 5, blocks[0].targets.values"),
        ("{name: random,\n      low: 3,\n      high: 2}", "line 5, blocks[0].targets.low"),
        ("{name: random,\n      high: 0.5}", "line 5, blocks[0].targets.high"),
    ],
)
def test_a_mistake_in_a_rule_of_targets_names_the_line_of_its_parameter(entry, place):
    text = "blocks:\n  - workload: {name: marginals, orders: [1]}\n    mechanism: IP\n"
    assert refused(f"{text}    targets: {entry}\n").startswith(f"x.yaml, {place}: ")


def test_options_that_exclude_each_other_are_refused_where_they_are_written():
    both = "[{name: optimal,\n      total_error_weight: 1,\n      refined: true}]"
    message = refused(changed("[IP, CA]", both))
    assert message.startswith("x.yaml, line 8, blocks[0].mechanism[0].refined: optimal: refined")
    message = refused(changed("[IP, CA]", both[1:-1]))
    assert message.startswith("x.yaml, line 8, blocks[0].mechanism[0].refined: optimal: refined")
    shared = "optimal\n    options:\n      total_error_weight: 1\n      refined: true"
    message = refused(changed("[IP, CA]", shared))
    assert message.startswith("x.yaml, line 9, blocks[0].options.refined: optimal: refined")


@pytest.mark.parametrize(("text", "told"), WHOLE_MISTAKES)
def test_a_mistake_of_the_whole_is_a_sentence(text, told):
    assert told in refused(text)


def test_the_name_of_a_nameless_experiment_is_the_files(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("name: small            # line 1\n", ""))
    assert load_experiment(path).name == load_experiment(str(path)).name == "mine"
    (tmp_path / "ü ö.yaml").write_text("reference: IP\nblocks: []\n")
    with pytest.raises(ExperimentError, match=r"is that of the file: rename it, or give 'name:'"):
        load_experiment(tmp_path / "ü ö.yaml")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ExperimentError, match="not UTF-8 text"):
        load_experiment(tmp_path / "binary.yaml")


def test_experiments_are_listed_in_natural_order_with_a_line_each():
    names = list(list_experiments())
    assert names.index("vldb-table9") < names.index("vldb-table10")
    assert all(list_experiments().values())


def test_the_documented_examples_are_valid():
    file, published = blocks(Path(__file__).parents[3] / "docs" / "experiments.md", "yaml")
    read = parse_experiment(file + published, "doc.yaml")
    assert expand(read)
    assert read.published
    assert read.claims


def test_an_experiment_shows_itself_in_a_few_lines():
    shown = repr(load_experiment("vldb"))
    assert str(load_experiment("vldb")) == shown
    assert "range d=64,128,256, 3 replicates: IP, GM" in shown
    assert "range d=8,16, 3 replicates: " in repr(load_experiment("vldb", {"d": [8, 16]}))
    assert len(shown.splitlines()) <= 8
    assert max(map(len, shown.splitlines())) <= 104
