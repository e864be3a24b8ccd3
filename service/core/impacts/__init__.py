"""What a deployment draws from its surroundings: energy, carbon, water, hardware."""
