"""The catalog in Postgres: tables, revisions, importing, and following what is newest."""
