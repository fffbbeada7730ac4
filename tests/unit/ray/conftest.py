"""A cluster for the tests."""

from collections.abc import Iterator

import pytest

from tests.unit.ray.running_cluster import RayCluster, running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A head and two nodes, each with room for one actor."""
    pytest.importorskip("ray.data", reason="Ray is not installed")
    with running_cluster(tmp_path_factory.mktemp("notes")) as running:
        yield running
