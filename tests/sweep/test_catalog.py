"""The catalogue: everything that an experiment can name, with its parameters."""

from sweep.report.listing import catalog


def test_parameters_are_listed_as_users_write_them():
    families = {entry.name: entry for entry in catalog("workloads")["workloads"]}
    assert [(p.name, p.default) for p in families["prefix"].params] == [("d", "")]
    told = {p.name: (p.expects, p.default) for p in families["marginals"].params}
    assert told["values"] == ("a whole number or a list of whole numbers", "2")
    assert told["containing"] == ("a whole number or nothing (null)", "null")
    listed = {entry.name: entry for entry in catalog("mechanisms")["mechanisms"]}
    assert {p.name: p.expects for p in listed["SM-II"].params}["t2_rule"] == "paper or code"
    assert {p.name: p.default for p in listed["COA"].params}["homotopy"] == "true"
    assert "published" in listed["COA"].presets
