"""The scores of a released model as an ONNX graph, for servers that run no Python."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import whole
from apportion.data.files import written_whole
from apportion.errors import ParameterError

if TYPE_CHECKING:
    from apportion.recommend.recommender import Recommender

OPSET = 17


def export_onnx(model: "Recommender", path: str | Path, k: int = 20) -> None:
    """Write a graph that makes lists of k items: what ``recommend`` does once a user's vector is known.

    Inputs are those of ``onnx_inputs``: ``vector`` [users, factors], ``center`` [users, 1], ``seen``
    [users, items]. Outputs: ``places`` of the best items in ``model.item_ids`` and their ``scores``,
    [users, k] each. Needs the package onnx.
    """
    try:
        onnx = import_module("onnx")
        helper, types = import_module("onnx.helper"), onnx.TensorProto
    except ImportError:
        raise ParameterError(
            "export_onnx needs the package onnx: pip install 'apportion[serving]'"
        ) from None
    released = model.released
    items = len(released.items)
    k = min(whole("k", k, at_least=1), items)
    intercepts = released.intercepts
    constants = {
        "items": np.ascontiguousarray(released.items.T, dtype=np.float32),
        "intercepts": np.zeros(items, np.float32) if intercepts is None else intercepts,
        "k": np.array([k], np.int64),
        "never": np.array(-np.inf, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["vector", "items"], ["products"]),
        helper.make_node("Add", ["products", "intercepts"], ["open"]),
        helper.make_node("Where", ["seen", "never", "open"], ["allowed"]),
        helper.make_node("TopK", ["allowed", "k"], ["best", "places"], axis=1),
        helper.make_node("Add", ["best", "center"], ["centered"]),
    ]
    within = released.fold_in.rating_range
    if within is None:
        nodes.append(helper.make_node("Identity", ["centered"], ["scores"]))
    else:
        constants |= {
            "low": np.array(within[0], np.float32),
            "high": np.array(within[1], np.float32),
        }
        nodes.append(helper.make_node("Clip", ["centered", "low", "high"], ["scores"]))
    factors = released.items.shape[1]
    graph = helper.make_graph(
        nodes,
        "apportion",
        [
            helper.make_tensor_value_info("vector", types.FLOAT, ["users", factors]),
            helper.make_tensor_value_info("center", types.FLOAT, ["users", 1]),
            helper.make_tensor_value_info("seen", types.BOOL, ["users", items]),
        ],
        [
            helper.make_tensor_value_info("places", types.INT64, ["users", k]),
            helper.make_tensor_value_info("scores", types.FLOAT, ["users", k]),
        ],
        [
            import_module("onnx.numpy_helper").from_array(values, name)
            for name, values in constants.items()
        ],
    )
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    found.ir_version = 8  # which goes with that opset: older runtimes read it, too
    import_module("onnx.checker").check_model(found)
    with written_whole(Path(path)) as place:
        place.write_bytes(found.SerializeToString())


def onnx_inputs(model: "Recommender", history: Any) -> dict[str, Any]:
    """What the graph of ``export_onnx`` takes for a user with this history: its vector, center and items."""
    scorer = model._scorer
    rows = scorer.one(history, "ignore")
    seen = np.zeros((1, len(model.item_ids)), dtype=bool)
    seen[0, rows.item] = True
    return {
        "vector": scorer.vectors(rows, exact=False).astype(np.float32),
        "center": rows.mean[:, None].astype(np.float32),
        "seen": seen,
    }
