"""Charts as Vega-Lite specifications: figures of an answer in, a plain dictionary out."""
