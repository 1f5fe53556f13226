"""Steps that `torch.compile` compiles: Dynamo, AOTAutograd and Inductor as they are, on the pretended GPU.

They are Python and need a GPU only to time and to launch kernels. So they see one (`machine`), the wrapper that
Inductor writes runs on pretended tensors, and each of its launches is logged instead of run (`kernels`).
"""

from .compiler import Compiler

__all__ = ["Compiler"]
