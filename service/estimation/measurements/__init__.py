"""Measurements that users report, beside the estimates."""
