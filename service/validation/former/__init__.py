"""What the comparison says: statistics, targets, peers, and the accuracy page."""
