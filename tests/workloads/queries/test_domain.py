"""Domains as people write them, and the message for each mistake."""

import pytest

from workloads import WorkloadError
from workloads.queries import domain_of


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "no attributes"),
        ("age: 0-5\n", "attribute 'age' is '0-5'; expected its values, as in 'age: 0..115'"),
        ("sex: [f, f]\n", "value 'f' is listed twice"),
        ("sex: [f, m]\nsex: [f]\n", "line 2: not valid YAML .found duplicate key"),
        ("sex: [f, [m]]\n", "expected a number, or a text in quotes"),
        ("sex: [true, false]\n", "value True; expected a number, or a text in quotes"),
        ("label: [a, b]\n", "attribute 'label': this is a column of the queries"),
        ("a: 0..9999\nb: 0..9999\n", "expected at most 10,000,000"),
        ("a: !!python/object:os.system [1]\n", "not valid YAML"),
    ],
)
def test_mistakes_in_a_domain_are_reported(text, said, tmp_path):
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(WorkloadError, match=said):
        domain_of(str(tmp_path / "d.yaml"))
