"""Sparse tensors, put together of others as the CUDA kernels do."""
