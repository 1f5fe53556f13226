package onnxload

// A scope is what names mean at one place: in the main graph and its subgraphs,
// or in one call of a function. Names are numbers of one table.
type scope struct {
	names *table
	bound []ValueID // by nodes that come before, inputs and initializers
	late  []ValueID // by any node of the graphs around: for files whose nodes are not in order
	undo  []undo    // bindings to restore when a subgraph ends
	call  *call     // nil in the main graph

	nested bool // in a subgraph or a function, whose bindings end
}

type undo struct {
	name        int32
	bound, late ValueID
}

func newScope(names *table, c *call) *scope {
	s := &scope{names: names, call: c}
	n := len(names.strs)
	both := make([]ValueID, 2*n)
	for i := range both {
		both[i] = unbound
	}
	s.bound, s.late = both[:n:n], both[n:]
	s.bound[0], s.late[0] = NoValue, NoValue
	return s
}

// declare makes a name of the current graph known, shadowing an outer one.
func (s *scope) declare(name int32, id ValueID, now bool) {
	if s.nested {
		s.undo = append(s.undo, undo{name, s.bound[name], s.late[name]})
	}
	s.late[name] = id
	if now {
		s.bound[name] = id
	}
}

func (s *scope) lookup(name ValueID) ValueID {
	if id := s.bound[name]; id != unbound {
		return id
	}
	return s.late[name]
}

func (s *scope) end(mark int) {
	for i := len(s.undo) - 1; i >= mark; i-- {
		u := s.undo[i]
		s.bound[u.name], s.late[u.name] = u.bound, u.late
	}
	s.undo = s.undo[:mark]
}
