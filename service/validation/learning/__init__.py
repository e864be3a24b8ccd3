"""How much estimates get better by own measurements: sources reported to nobody, in part."""
