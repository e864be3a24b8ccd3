"""What benchmarks, trainers and meters write, read as measurements in the one form."""
