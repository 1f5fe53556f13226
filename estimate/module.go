package estimate

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A place says which call of which module a node came from, as far as the
// exporter wrote it down.
type place struct {
	module string // path from the root: "layer1.0.conv1"; "" for the root or when unknown
	class  string // of that module: "Conv2d"; "" when unknown
	call   string // the PyTorch operation: "conv2d_3", unique in the graph; "" when unknown
	op     string // its operator: "conv2d"; "" when unknown
	cut    bool   // the file's record of where it is ends early: it may be in modules within this one
	around string // the modules whose forwards run around it, outermost first, by "/": "layer1/layer1.0/layer1.0.conv1"; a ModuleList has none
}

// What is read of a node's name and namespace: bytes, and modules within modules. Real models have a quarter
// of it; what is made of it grows with the square.
const (
	maxName      = 512
	maxNamespace = 8 << 10
	maxScopes    = 64
)

// placeOf reads the place of a node from its metadata (torch.export) or from its
// name (TorchScript).
func placeOf(n *onnxload.Node) place {
	// "namespace" is onnxscript's, written by every torch.onnx.export(dynamo=True):
	//   : pkg.ResNet/layer1: pkg.Sequential/layer1.0: pkg.BasicBlock/relu_1: aten.relu.default
	if ns := n.MetaValue("namespace"); ns != "" && len(ns) <= maxNamespace {
		return placeOfNamespace(ns)
	}
	if p := n.Name; strings.HasPrefix(p, "/") && len(p) <= maxName {
		module, around := modulePath(p[1:])
		return place{module: module, around: around}
	}
	return place{}
}

// placeOfNamespace reads onnxscript's namespace: modules from the root to the leaf, then the
// operation. Whoever made a file smaller may have cut it off before that.
func placeOfNamespace(ns string) place {
	p := place{cut: true}
	root := true
	for part := range strings.SplitSeq(ns, "/") {
		key, class, ok := strings.Cut(part, ": ")
		if !ok { // the beginning of a module's path, which is longer than p.module, or of an operation
			p.cut = strings.HasPrefix(p.module, key) || strings.HasPrefix(key, p.module)
			break
		}
		if strings.HasPrefix(key, "_empty_nn_module_stack") {
			continue
		}
		// A module's key is its path from the root, so it extends its parent's. An
		// operation is called as in "aten.conv2d.default".
		within := root || p.module == "" || strings.HasPrefix(key, p.module+".")
		if library, op, ok := strings.Cut(class, "."); ok && (library == "aten" || library == "prims" || !within) {
			if op, _, ok := strings.Cut(op, "."); ok {
				p.call, p.op = key, op
			}
			p.cut = false
			break
		}
		if !within {
			p.cut = false
			break
		}
		p.module, p.class = key, class[strings.LastIndexByte(class, '.')+1:]
		if p.around != "" {
			p.around += "/"
		}
		p.around += key
		root = false
	}
	return p
}

// modulePath joins the scopes of a TorchScript node name, the node's own name left
// out: "/layer1/layer1.0/conv1/Conv" is in "layer1.0.conv1", which is called by "layer1.0" and that by "layer1". The
// members of a Sequential repeat its name; those of a ModuleList, which nobody calls, do not: "/blocks.0/norm/Add".
func modulePath(name string) (module, around string) {
	var path, calls []byte
	last := 0 // where the last scope begins in path
	for scopes := 0; ; scopes++ {
		scope, rest, more := strings.Cut(name, "/")
		if !more || scopes == maxScopes {
			return string(path), string(calls)
		}
		name = rest
		if k := len(path) - last; k > 0 && len(scope) > k && scope[k] == '.' && scope[:k] == string(path[last:]) {
			path = append(path[:last], scope...)
		} else {
			if len(path) > 0 {
				path = append(path, '.')
			}
			last = len(path)
			path = append(path, scope...)
		}
		if len(calls) > 0 {
			calls = append(calls, '/')
		}
		calls = append(calls, path...)
	}
}

// moduleOfParameter returns the module that owns a parameter by its name:
// "layer1.0.conv1" for "layer1.0.conv1.weight".
func moduleOfParameter(name string) string {
	if len(name) > maxName || !isModulePath(name) {
		return ""
	}
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)]
}

// isModulePath reports whether a constant's name is one that PyTorch gave a
// parameter or buffer: identifiers and numbers joined by dots. Exporters name what
// they compute themselves otherwise: "onnx::MatMul_45" and
// "/layer1/Constant_output_0" (TorchScript), "val_12" and "scalar_tensor_default"
// (torch.export), which have no dot.
func isModulePath(name string) bool {
	if !strings.Contains(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			c := part[i]
			if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	return true
}
