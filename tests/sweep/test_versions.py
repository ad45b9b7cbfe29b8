"""Workers with other versions of libraries: refused, or let in and visible per cell."""

import pytest
from distributed import WorkerPlugin
from faults import Fault, injected

import sweep
from sweep.errors import ClusterError
from sweep.plan import tasks
from sweep.plan.items import Bound
from sweep.store import versions
from sweep.store.view import StoreView
from sweep.worker import perform

OTHER = "python 3.9.0, numpy 1.26.0, scipy 1.11.0"


class OtherVersions(WorkerPlugin):
    """Lets the second worker say that it has others."""

    def setup(self, worker):
        if worker.name == 1:
            self.originals = versions.ours, versions.of_numbers
            versions.ours = versions.of_numbers = lambda: OTHER

    def teardown(self, worker):
        if worker.name == 1:
            versions.ours, versions.of_numbers = self.originals


@pytest.fixture
def mixed(client):
    client.register_plugin(OtherVersions(), name="other versions")
    yield client
    client.unregister_worker_plugin("other versions")


def test_the_versions_are_those_of_what_is_imported():
    import numpy
    import scipy

    assert f"numpy {numpy.__version__}, scipy {scipy.__version__}" in versions.ours()
    assert versions.ours().startswith(versions.of_numbers())


def test_a_mixture_is_refused_or_visible_in_every_cell(mixed, small, tmp_path):
    with pytest.raises(ClusterError, match=r"other versions \(python 3\.9\.0.*--allow-mixed"):
        sweep.run(small(), tmp_path / "s", mixed)
    asked = small("[2]", "IP\n    replicates: 40")
    with injected(mixed, tmp_path, Fault("sleep", "IP", seconds=0.05)):
        dataset = sweep.run(asked, tmp_path / "m", mixed, allow_mixed=True)
    assert set(dataset.versions.values.ravel()) == {OTHER, versions.of_numbers()}


def test_a_worker_that_joins_later_solves_nothing(tmp_path):
    view = StoreView(str(tmp_path), "", versions=OTHER)
    item = Bound("p", "w", None, None)
    (record,) = perform.perform(tasks.Task("t", (item,)), view).records
    assert record.lower_bound is None
    assert "--allow-mixed" in record.error
