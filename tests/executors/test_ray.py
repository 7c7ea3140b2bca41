"""A real Ray cluster of two nodes: workers are killed and nodes are removed, and every run still finishes once."""

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from adalin.executors import Ray
from executor_runs import (
    assert_finished_once,
    local_rows,
    make_work,
    poison,
    rows_of,
    slow_down,
    starts_of,
    wait_for_starts,
)
from notes import Notes

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the ray extra"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own, of many kinds
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    try:
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes.add_node(num_cpus=1)
    except Exception as error:
        # Ray gives a node 30 s to start, which cannot be changed.
        if "timed out during startup" in str(error):
            pytest.skip("this machine is too busy to start Ray within its 30 s")
        raise
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def engine(cluster: Any, **options: Any) -> Ray:
    return Ray(**{"address": cluster.address, "backoff": 0.1, "poll_seconds": 0.5, **options})


def test_a_worker_that_is_killed_is_replaced_and_a_run_that_always_dies_is_reported(cluster, tmp_path):
    work, notes = make_work(tmp_path, plugins=["disturbances"]), Notes()
    bad, unlucky = work.runs[0], work.runs[2]
    poison(tmp_path / bad.folder, deaths=99)
    poison(tmp_path / unlucky.folder, deaths=1)
    assert not engine(cluster, retries=1).train(work, notes)
    (message,) = notes.messages("error")
    assert message.startswith(f"{bad.folder} did not get further in 2 attempts: the last lines of {tmp_path}")
    assert "The worker died unexpectedly" in message
    assert rows_of(tmp_path) == {name: rows for name, rows in local_rows().items() if name != str(bad.folder)}
    assert len(notes.of("done")) == 3


def test_runs_of_a_node_that_is_removed_go_on_elsewhere(cluster, tmp_path):
    work = make_work(tmp_path, tasks=4, plugins=["disturbances"], workers=4)
    slow_down(tmp_path, 0.8)
    node = cluster.add_node(num_cpus=2)

    def remove() -> None:
        wait_for_starts(tmp_path, 4)
        cluster.remove_node(node, allow_graceful=False)

    notes = Notes(at_first_row=remove)
    assert not engine(cluster).train(work, notes)
    assert_finished_once(notes, work)
    assert sum(starts_of(tmp_path)) > 4


def test_a_signal_cancels_the_tasks_which_save_and_the_same_command_goes_on(cluster, tmp_path):
    work = make_work(tmp_path, tasks=4, plugins=["disturbances"])
    slow_down(tmp_path, 0.8)
    assert engine(cluster).train(work, Notes(at_first_row=lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert rows_of(tmp_path) != local_rows(4)
    logs = [path.read_text() for path in tmp_path.glob(".jobs/*/job-*.log")]
    assert all("stopped and saved" in log for log in logs), logs
    (tmp_path / "slow").unlink()
    assert not engine(cluster).train(work, Notes())
    assert rows_of(tmp_path) == local_rows(4)
