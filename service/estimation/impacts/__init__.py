"""Energy, carbon, water, waste, and a site's neighbours."""
