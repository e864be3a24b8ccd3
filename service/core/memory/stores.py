"""What retrieval and long-term memory of agents take: vectors, their index, and what they inject.

References
----------
Malkov and Yashunin, Efficient and robust approximate nearest neighbor search using Hierarchical
Navigable Small World graphs, 2016, https://arxiv.org/abs/1603.09320
"""

from __future__ import annotations

from service.core.elementwise import Number, minimum
from service.core.explanation import Formula, paths

#: A neighbour in the graph is a 32-bit number.
LINK_BYTES = 4.0
#: The bottom layer keeps twice as many neighbours as the layers above it; those, which hold one
#: vector in M, are left out. Source: Faiss wiki, Guidelines to choose an index, 2024
#: (https://github.com/facebookresearch/faiss/wiki/Guidelines-to-choose-an-index).
BOTTOM_LAYER_FACTOR = 2.0

#: Paths start at a store of vectors.
STORE = (
    Formula(
        "Vectors", "count * dimensions * bytes_per_element", "Sum of the elements", "vectors_bytes"
    ),
    Formula(
        "Links of the graph",
        "count * 2 * links_per_vector * 4",
        "Malkov and Yashunin, HNSW, 2016, https://arxiv.org/abs/1603.09320",
        "index_bytes",
    ),
)
#: Paths start at the cache of what is retrieved.
RETRIEVED = (
    Formula(
        "Cache of what is retrieved",
        "state_bytes + full_layers_bytes_per_token * tokens + sum(bytes)",
        "Ainslie et al., GQA, 2023, https://arxiv.org/abs/2305.13245",
        "cache_bytes",
        paths(
            "layout.state_bytes",
            full_layers_bytes_per_token="layout.full_bytes_per_token",
            bytes="windows",
        ),
    ),
)


def vectors_bytes(count: Number, dimensions: Number, bytes_per_element: Number) -> Number:
    """Bytes of embedding vectors [B].

    Parameters
    ----------
    count
        Vectors [-].
    dimensions
        Elements of a vector [-].
    bytes_per_element
        Of the number format they are stored in [B].
    """
    return count * dimensions * bytes_per_element


def graph_index_bytes(count: Number, links_per_vector: Number) -> Number:
    """Bytes of the links of a navigable small-world graph (HNSW) over vectors [B].

    Parameters
    ----------
    count
        Vectors [-].
    links_per_vector
        The index's parameter M; 0 for a store that is searched without a graph [-].
    """
    return count * BOTTOM_LAYER_FACTOR * links_per_vector * LINK_BYTES


def vectors_after(
    count: Number, added_per_day: Number, days: Number, retention_days: Number | None
) -> Number:
    """Vectors in a store after some time [-].

    Parameters
    ----------
    count
        Vectors at the start, which stay [-].
    added_per_day
        Events that are remembered a day, one vector each [1/day].
    days
        Time that passes [day].
    retention_days
        Time after which an added vector is forgotten; None for never [day].
    """
    kept_days = days if retention_days is None else minimum(days, retention_days)
    return count + added_per_day * kept_days
