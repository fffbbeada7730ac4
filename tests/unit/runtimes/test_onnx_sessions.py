import sys

import numpy as np

from whisperbatch.runtimes.onnx_graph import OnnxGraph, Port
from whisperbatch.runtimes.onnx_sessions import open_session


def test_a_session_does_not_keep_the_content_of_its_graph() -> None:
    graph = OnnxGraph()
    doubled = graph.add("Add", "x", "x")
    content = graph.finish("double", [Port("x", (2,))], [Port(doubled, (2,))])
    references = sys.getrefcount(content)
    session = open_session(content, threads=1)
    assert sys.getrefcount(content) == references
    (output,) = session.run(None, {"x": np.array([1, 3], np.float32)})
    assert output.tolist() == [2, 6]
