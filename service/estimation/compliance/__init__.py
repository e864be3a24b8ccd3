"""Rules of places, and how a site, a company or a model stands to them."""
