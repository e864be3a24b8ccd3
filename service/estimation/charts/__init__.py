"""What charts show: series of figures, computed by the other use cases, for `service.charts`."""
