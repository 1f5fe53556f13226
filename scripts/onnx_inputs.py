"""Write the inputs of every operator of ai.onnx, over all of its versions: estimate/recover/testdata/onnx-inputs.txt.

A line is the operator and a sign for each input: ``!`` in every version and every node, ``?`` may be left out or is
not in every version, ``+`` any number from here on, at least one, ``*`` any number.
"""

from onnx import defs

Option = defs.OpSchema.FormalParameterOption
versions: dict[str, list[defs.OpSchema]] = {}
for schema in defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.setdefault(schema.name, []).append(schema)


def last(schema: defs.OpSchema) -> Option:
    """Return what the inputs after the last one of an operator are."""
    if schema.inputs and schema.inputs[-1].option == Option.Variadic:
        return Option.Variadic
    return Option.Optional


for name, schemas in sorted(versions.items()):
    signs = []
    for i in range(max(len(s.inputs) for s in schemas)):
        # Where a version's last input may come any number of times, it is this one too.
        options = [s.inputs[i].option if i < len(s.inputs) else last(s) for s in schemas]
        if all(option == Option.Variadic for option in options):
            signs.append("+" if min(s.min_input for s in schemas) > i else "*")
            break
        signs.append("!" if all(option == Option.Single for option in options) else "?")
    print(name, *signs)
