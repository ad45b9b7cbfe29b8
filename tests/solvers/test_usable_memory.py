"""How much memory a process may take, from files as Linux writes them."""

import pytest

from solvers.problem import memory

VERSION_1 = "9:name=systemd:/\n4:cpuacct,memory:/jobs/7\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "least"),
    [
        ("0::/jobs/7", {"jobs/7/memory.max": "max", "jobs/memory.max": "4096"}, 4096.0),
        ("0::/jobs/7", {"jobs/7/memory.max": "512", "jobs/memory.max": "4096"}, 512.0),
        (VERSION_1, {"memory/jobs/7/memory.limit_in_bytes": "1024"}, 1024.0),
        (VERSION_1, {"memory/memory.limit_in_bytes": "9223372036854771712"}, 9223372036854771712.0),
        ("0::/", {}, None),
    ],
)
def test_limits_of_containers_and_batch_jobs_count(tmp_path, groups, files, least):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert min(memory.limits_of_groups(groups, tmp_path), default=None) == least
