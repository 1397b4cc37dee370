"""What is written and read: files that are whole or absent, tensors, tables with their schemas."""
