"""What model files say of themselves: only their headers are read, whoever made them."""
