"""Prices as providers publish them, read without a key and brought into tables of offers."""
