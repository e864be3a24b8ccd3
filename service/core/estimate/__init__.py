"""One pipeline from a resolved setup to memory, speed, energy and footprint, floats or arrays."""
