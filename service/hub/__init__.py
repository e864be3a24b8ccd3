"""Configurations from the Hugging Face Hub, or a mirror of it, by the names of models there.

Nothing is downloaded but a ``config.json`` and what the Hub tells of the weights' sizes.
"""
