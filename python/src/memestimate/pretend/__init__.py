"""The GPU that is not there, as PyTorch, CUDA's libraries and programs see it."""
