"""Blocks of a group, united into a grid."""

from itertools import product

from written import experiment, prefix

from sweep.grid.expansion import expand


def grids(*blocks, **others):
    return expand(experiment(*blocks, **others))


def grid(*blocks, **others):
    (only,) = grids(*blocks, **others)
    return only


def axes(of):
    return {axis.name: axis.values for axis in of.axes}


def test_conditions_and_blocks_leave_holes():
    made = grid(prefix([4, 8, 16], ["IP", "CA"], where="d <= 8 or mechanism != 'CA'"))
    assert len(made.cells) == 5
    assert axes(made)["d"] == (4, 8, 16)
    few = "mechanism != 'CA' or replicate < 1"
    for replicates, count in ((1, 2), (3, 4)):
        made = grid(prefix(4, ["IP", "CA"], where=few, replicates=replicates))
        assert len(made.cells) == count
    made = grid(prefix([4, 8], ["IP", "CA"]), prefix([8, 16], ["CA", "HM"]))
    assert axes(made) == {"d": (4, 8, 16), "mechanism": ("IP", "CA", "HM")}
    points = {(cell.coords["d"], cell.coords["mechanism"]) for cell in made.cells}
    assert points == {*product((4, 8), ("IP", "CA")), *product((8, 16), ("CA", "HM"))}
    assert len(made.cells) == 7
