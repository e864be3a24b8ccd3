"""Rented and owned hardware, electricity and emissions, in money."""
