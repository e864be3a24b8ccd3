"""What saves memory and what it costs: techniques as data with behaviour, and plans of them."""
