"""Training programs as people write them, one of each kind: what PyTorch offers beside layers and optimizers.

Each is a generator: it builds everything on the GPU, and yields once it is ready and after each of three steps, so that
a loop over it runs it whole. `n` is its batch or what goes for one. They run on a GPU, on the recorder, and nowhere
else.
"""
