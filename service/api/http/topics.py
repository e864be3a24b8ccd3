"""What the operations are about, for the reference and for generators of clients."""

#: Descriptions of the operations' tags, in the order in which the reference shows them.
TOPICS = {
    "estimates": "What a deployment needs: memory, speed, energy, footprint and cost.",
    "decisions": "Comparisons, recommendations and many estimates at once.",
    "charts": "Figures of an estimate as charts.",
    "sweeps": "Whole design spaces as jobs that outlive a request.",
    "reports": "Footprints in the lines of disclosure standards.",
    "techniques": "What saves memory, when to use it, and what it costs.",
    "claims": "Circulating figures, held against what they come to.",
    "measurements": "What was measured, beside what had been estimated.",
    "catalog": "Hardware, models, places, prices and rules, with their sources and revisions.",
    "grid": "What electricity grids emit at this hour.",
    "keys": "API keys of an organisation.",
    "page": "What other sites show of an estimate.",
    "operations": "What those who run the service ask.",
}
