package program

import (
	"slices"
	"strconv"
	"strings"
)

// Repeated marks, by scope, the modules of which a model is a row: the layers of a transformer, the residual blocks of
// a convolutional net. They are numbered ("h.3", "layer2.0", "encoder_layer_5"), have submodules with names of their
// own, and a neighbour that has the same. A module without a neighbour is one too where it has the submodules that
// others have: the only block of a stage. Of modules within each other the outer ones count.
func Repeated(prog *Program) []bool {
	n := len(prog.Scopes)
	children := make([][]string, n)
	busy := make([]bool, n) // some call is made within it
	for i := range prog.Calls {
		for s := prog.Calls[i].Scope; s >= 0 && !busy[s]; s = prog.Scopes[s].Parent {
			busy[s] = true
		}
	}
	for i := range prog.Scopes {
		if p := prog.Scopes[i].Parent; p >= 0 && busy[i] {
			own := strings.TrimPrefix(strings.TrimPrefix(prog.Scopes[i].Name, prog.Scopes[p].Name), ".")
			if !slices.Contains(children[p], own) {
				children[p] = append(children[p], own)
			}
		}
	}
	nameChildren(prog, children)
	at := map[string]int{}      // by name, of what may be a block
	shapes := map[string]bool{} // children of those that have a neighbour alike
	marked := make([]bool, n)
	for i := range prog.Scopes {
		list := children[i]
		stem := strings.TrimRight(prog.Scopes[i].Name, "0123456789")
		number, err := strconv.Atoi(strings.TrimPrefix(prog.Scopes[i].Name, stem))
		if err != nil || !slices.ContainsFunc(list, named) {
			continue
		}
		slices.Sort(list)
		at[prog.Scopes[i].Name] = i
		if j, ok := at[stem+strconv.Itoa(number-1)]; ok && alike(children[j], list) {
			marked[i], marked[j] = true, true
			shapes[strings.Join(list, " ")], shapes[strings.Join(children[j], " ")] = true, true
		}
	}
	for _, i := range at {
		marked[i] = marked[i] || shapes[strings.Join(children[i], " ")]
	}
	for i := range marked {
		marked[i] = marked[i] && within(prog, prog.Scopes[i].Parent, marked) < 0
	}
	return marked
}

// nameChildren adds to the children of modules those that only names of parameters show: exports of modules with a
// __call__ of their own, as the layers of transformers have, may not say what is called within them.
func nameChildren(prog *Program, children [][]string) {
	scopes := map[string]int{}
	for i := range prog.Scopes {
		if name := prog.Scopes[i].Name; name != "" {
			scopes[name] = i
		}
	}
	for _, id := range prog.State {
		v := &prog.Values[id]
		module := strings.LastIndexByte(v.Name, '.')
		if v.Kind != Parameter || module < 0 {
			continue
		}
		for k, letter := range v.Name[:module] {
			if letter != '.' {
				continue
			}
			i, ok := scopes[v.Name[:k]]
			child, _, _ := strings.Cut(v.Name[k+1:module], ".")
			if ok && !slices.Contains(children[i], child) {
				children[i] = append(children[i], child)
			}
		}
	}
}

// named reports whether a submodule has a name of its own, not only a number as in a Sequential.
func named(child string) bool { return strings.Trim(child, "0123456789.") != "" }

// alike reports whether half of the longer of two lists is in the other: a block that also changes the shape has
// submodules for that.
func alike(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	both := 0
	for _, x := range a {
		if slices.Contains(b, x) {
			both++
		}
	}
	return 2*both >= len(b)
}
