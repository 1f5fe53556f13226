"""Compiled steps: what `torch.compile` makes, run on pretended tensors."""
