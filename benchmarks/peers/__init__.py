"""Other estimators, asked about the same published measurements as this service.

``python -m benchmarks.peers`` runs each peer in an environment of its own, made of the pinned
package, and writes what it answers to ``hardware_catalog/measurements/peers.csv``, from which
``docs/accuracy.md`` sets its errors beside ours. Nothing else needs the peers.
"""
