"""Commands that mind the catalog, the database, the checkout and the accuracy."""
