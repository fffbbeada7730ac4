"""A Ray cluster of a head and two nodes on this machine, as a program.

Prints its address. For each line on its standard input, kills one of the nodes, adds another, and
prints "ready". Ends with its standard input.
"""

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 2, "memory": 2**33, "object_store_memory": 2**27, "resources": {"worker": 1}}
HEAD = {"num_cpus": 1, "object_store_memory": 2**27, "include_dashboard": False}


def main() -> None:
    """Run the cluster."""
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    nodes = [cluster.add_node(**NODE) for _ in range(2)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)  # noqa: T201 - read by the tests
    for _ in sys.stdin:
        cluster.remove_node(nodes.pop(), allow_graceful=False)
        nodes.append(cluster.add_node(**NODE))
        cluster.wait_for_nodes()
        print("ready", flush=True)  # noqa: T201 - read by the tests
    cluster.shutdown()


main()
