"""What the operations are about, for the reference and for generators of clients."""

#: Descriptions of the operations' tags, in the order in which the reference shows them.
TOPICS = {
    "estimates": "What a deployment needs: memory, speed, energy, footprint and cost.",
    "decisions": "Comparisons, recommendations and batches of estimates.",
    "plans": "Fleets over years, days of traffic, and what sites hold.",
    "charts": "Figures of an estimate as charts.",
    "sweeps": "Whole design spaces, evaluated as background jobs.",
    "reports": "Footprints in the form of disclosure standards.",
    "techniques": "Techniques that save memory, when to use them, and what they cost.",
    "claims": "Widespread claims about figures, compared with the recomputed figures.",
    "measurements": "Measured figures, compared with estimates.",
    "catalog": "Hardware, models, regions, prices and rules, with their sources and revisions.",
    "grid": "Current emissions of electricity grids.",
    "keys": "API keys of an organisation.",
    "page": "Estimates embedded in other sites.",
    "operations": "Health, metrics and documentation of the service.",
}
