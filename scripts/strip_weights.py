#!/usr/bin/env python3
"""Remove the weights from an ONNX file: python strip_weights.py model.onnx light.onnx

What is left is the graph with the shapes and dtypes of its weights, small enough for
an issue or a repository, and with nothing trained in it. memestimate answers the same
for both files, for it never reads weights. Needs the onnx package; the file of
external weights need not be there.

Small integer tensors stay: they are sizes and axes, and shapes depend on them. So do
small tables of floating point that count, as torch.arange makes them: sizes are
computed of positions, too. So do the lines of the model's source that torch.export
writes down for each node, with the names of their files but without folders: which
tensors a program still holds stands there and nowhere else. --no-source leaves them
out. Of the calls that nodes were translated from those stay that read a copy: where
dropout was stands there alone.
"""
import argparse
import re

import onnx
from onnx import TensorProto, numpy_helper

KEEP_INTEGERS = 4096  # bytes, of tables of floating point that count, too
KEEP_FLOATS = 64      # bytes: scalars such as an attention's scale
INTEGERS = {
    TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL,
}
FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
PAYLOADS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data")


class Stripper:
    def __init__(self, location, source=True):
        self.location, self.offset, self.source = location, 0, source

    def tensor(self, t):
        if t.data_type == TensorProto.STRING:
            return
        count = 1
        for d in t.dims:
            count *= d
        size = (count * self.bits(t.data_type) + 7) // 8
        if size <= KEEP_FLOATS or (size <= KEEP_INTEGERS and (t.data_type in INTEGERS or self.counts(t))):
            return
        for field in PAYLOADS:
            t.ClearField(field)
        t.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", self.offset), ("length", size)):
            entry = t.external_data.add()
            entry.key, entry.value = key, str(value)
        self.offset += size

    def counts(self, t):
        """Whether the numbers of a tensor of floating point, if it is in the file, are whole and no two equal."""
        if t.data_type not in FLOATS or t.data_location == TensorProto.EXTERNAL:
            return False
        try:
            values = [float(value) for value in numpy_helper.to_array(t).flat]
        except ValueError:  # the file lacks some of them, as one whose weights were left out otherwise
            return False
        return all(value.is_integer() for value in values) and len(set(values)) == len(values)

    def bits(self, data_type):
        name = TensorProto.DataType.Name(data_type)
        if name == "BOOL":
            return 8
        if name == "BFLOAT16":
            return 16
        if name in ("FLOAT", "DOUBLE", "COMPLEX64", "COMPLEX128"):
            return {"FLOAT": 32, "DOUBLE": 64, "COMPLEX64": 64, "COMPLEX128": 128}[name]
        for prefix in ("FLOAT8", "FLOAT4"):
            if name.startswith(prefix):
                return int(prefix[-1])
        return int("".join(c for c in name if c.isdigit()))  # UINT4, INT64, FLOAT16 ...

    def attributes(self, node):
        for a in node.attribute:
            for t in [a.t] if a.HasField("t") else []:
                self.tensor(t)
            for t in a.tensors:
                self.tensor(t)
            for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                self.graph(g)

    def graph(self, g):
        for t in g.initializer:
            self.tensor(t)
        for node in g.node:
            self.attributes(node)
            self.clean(node)

    def clean(self, node):
        node.ClearField("doc_string")  # stack traces, with paths of the machine that exported
        for i in reversed(range(len(node.metadata_props))):
            p = node.metadata_props[i]
            if p.key.endswith("stack_trace") and self.source:
                p.value = re.sub(r'File "[^"\n]*[/\\]', 'File "', p.value)
            elif p.key.endswith("fx_node") and "%clone" in p.value:  # what the optimiser dropped is named here alone
                pass
            elif p.key.endswith(("stack_trace", "fx_node", "name_scopes", "class_hierarchy")):  # the namespace has it
                del node.metadata_props[i]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("light")
    p.add_argument("--no-source", action="store_true", help="leave the lines of the model's source out too")
    args = p.parse_args()
    model = onnx.load(args.model, load_external_data=False)
    stripper = Stripper("weights.bin", not args.no_source)
    stripper.graph(model.graph)
    for function in model.functions:
        for node in function.node:
            stripper.attributes(node)
            stripper.clean(node)
    onnx.save(model, args.light)
    print(f"{args.light}: {stripper.offset} bytes of weights left out")


if __name__ == "__main__":
    main()
