package module

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Place says which call of which module a node came from, as far as the
// exporter wrote it down.
type Place struct {
	Module string // path from the root: "layer1.0.conv1"; "" for the root or when unknown
	Class  string // of that module: "Conv2d"; "" when unknown
	Call   string // the PyTorch operation: "conv2d_3", unique in the graph; "" when unknown
	Op     string // its operator: "conv2d"; "" when unknown
	Cut    bool   // the file's record of where it is ends early: it may be in modules within this one
	// module, with a slash where the path of one whose forward runs around it ends: "layer1/.0/.conv1"; a ModuleList has
	// none
	Around string

	Torch bool // Class is torch.nn's, and not a program's own of that name
}

// What is read of a node's name and namespace: bytes, and modules within modules. Real models have a quarter
// of it; what is made of it grows with the square.
const (
	maxName      = 512
	maxNamespace = 8 << 10
	maxScopes    = 64
)

// Places finds the places of nodes. Nodes of one module as a rule follow each other, and share theirs.
type Places struct {
	from string // what the last place was read from
	last *Place

	guessed *Place // the last one
}

// nowhere is the place of a node that says nothing.
var nowhere = &Place{}

// Of reads the place of a node from its metadata (torch.export) or from its
// name (TorchScript).
func (p *Places) Of(n *onnxload.Node) *Place {
	// "namespace" is onnxscript's, written by every torch.onnx.export(dynamo=True):
	//   : pkg.ResNet/layer1: pkg.Sequential/layer1.0: pkg.BasicBlock/relu_1: aten.relu.default
	from := n.MetaValue("namespace")
	export := from != "" && len(from) <= maxNamespace
	if !export {
		if !strings.HasPrefix(n.Name, "/") || len(n.Name) > maxName {
			return nowhere
		}
		from = n.Name[:strings.LastIndexByte(n.Name, '/')+1]
	}
	if p.last != nil && p.from == from {
		return p.last
	}
	p.from = from
	if export {
		at := placeOfNamespace(from)
		p.last = &at
		return p.last
	}
	module, around := modulePath(from[1:])
	p.last = &Place{Module: module, Around: around}
	return p.last
}

// guess returns the place of a node by the module of a parameter that it reads.
func (p *Places) guess(module string) *Place {
	if p.guessed == nil || p.guessed.Module != module {
		p.guessed = &Place{Module: module}
	}
	return p.guessed
}

// PlaceOf returns the place of a node as it tells it itself, less what the names of parameters add. Nodes that follow
// each other cost least; two must not be asked at a time.
func (a *Analysis) PlaceOf(n *onnxload.Node) *Place { return a.places.Of(n) }

// placeOfNamespace reads onnxscript's namespace: modules from the root to the leaf, then the
// operation. Whoever made a file smaller may have cut it off before that.
func placeOfNamespace(ns string) Place {
	p := Place{Cut: true}
	root := true
	var room [128]byte // most are shorter
	around := room[:0]
	last := "" // the innermost module's own path
	for end := 0; end < len(ns); end++ {
		part, rest, more := strings.Cut(ns[end:], "/")
		end = len(ns) - len(rest) - 1
		if !more {
			end = len(ns)
		}
		key, class, ok := strings.Cut(part, ": ")
		if !ok { // the beginning of a module's path, which is longer than p.module, or of an operation
			p.Cut = strings.HasPrefix(last, key) || strings.HasPrefix(key, last)
			break
		}
		if strings.HasPrefix(key, "_empty_nn_module_stack") {
			continue
		}
		// A module's key is its path from the root, so it extends its parent's. An
		// operation is called as in "aten.conv2d.default".
		within := root || last == "" || strings.HasPrefix(key, last+".")
		if library, op, ok := strings.Cut(class, "."); ok && (library == "aten" || library == "prims" || !within && !more) {
			if op, _, ok := strings.Cut(op, "."); ok {
				p.Call, p.Op = key, op
			}
			p.Cut = false
			break
		}
		if !within && !more {
			p.Cut = false
			break
		}
		// Where a module calls one that is not its own, sublayer(x, lambda x: self.attn(x)), its path goes on with what the
		// two do not share, as TorchScript's names do.
		path := key
		switch {
		case !within:
			path = p.Module + "." + key[len(shared(last, key)):]
		case p.Module != last:
			path = p.Module + key[len(last):]
		}
		if p.Module != "" {
			around = append(around, '/')
		}
		around = append(around, path[len(p.Module):]...)
		p.Module, p.Class, last = path, class[strings.LastIndexByte(class, '.')+1:], key
		p.Torch = strings.HasPrefix(class, "torch.nn.")
		root = false
	}
	p.Around = p.Module // most modules that say where they are have one around them, or none
	if len(around) > len(p.Module) {
		p.Around = string(around)
	}
	return p
}

// shared returns the modules that two paths begin with, with the dot behind them.
func shared(a, b string) string {
	n := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '.' {
			n = i + 1
		}
	}
	return b[:n]
}

// modulePath joins the scopes of a TorchScript node name, the node's own name left
// out: "/layer1/layer1.0/conv1/Conv" is in "layer1.0.conv1", which is called by "layer1.0" and that by "layer1". The
// members of a Sequential repeat its name; those of a ModuleList, which nobody calls, do not: "/blocks.0/norm/Add".
func modulePath(name string) (module, around string) {
	if scope, rest, _ := strings.Cut(name, "/"); !strings.Contains(rest, "/") {
		return scope, scope
	}
	var path, calls [2 * maxName]byte // more than the name: it has a slash for every one and every dot of theirs
	n, m := 0, 0
	last := 0 // where the last scope begins in path
	add := func(s string) { n += copy(path[n:], s); m += copy(calls[m:], s) }
	for scopes := 0; scopes < maxScopes; scopes++ {
		scope, rest, more := strings.Cut(name, "/")
		if !more {
			break
		}
		name = rest
		if m > 0 {
			calls[m] = '/'
			m++
		}
		if k := n - last; k > 0 && len(scope) > k && scope[k] == '.' && scope[:k] == string(path[last:n]) {
			add(scope[k:])
			continue
		}
		if n > 0 {
			add(".")
		}
		last = n
		add(scope)
	}
	return string(path[:n]), string(calls[:m])
}

// ModuleOfParameter returns the module that owns a parameter by its name:
// "layer1.0.conv1" for "layer1.0.conv1.weight".
func ModuleOfParameter(name string) string {
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
