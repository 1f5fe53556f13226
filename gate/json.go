package gate

import (
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/report"
)

// Schema is the name of the form that Result has in JSON. docs/json.md describes it.
const Schema = "memestimate-check/1"

// A Result is an outcome as JSON has it.
type Result struct {
	Schema  string          `json:"schema"`
	Over    int             `json:"over"` // lines that are over their limit
	Base    *Compared       `json:"base,omitempty"`
	Lines   []budget.Line   `json:"lines"`
	Errors  []Failure       `json:"errors"`
	Changes []budget.Change `json:"changes"`
	Removed []Removal       `json:"removed"`
	Moved   []Move          `json:"moved"`
}

// Compared says what was compared.
type Compared struct {
	Revision string `json:"revision,omitempty"` // as somebody named it
	Commit   string `json:"commit"`
	Head     string `json:"head"`
}

// A Failure is a model that could not be estimated.
type Failure struct {
	Model string `json:"model"`
	Error string `json:"error"`
}

// A Move is a model that the base has under another name.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Result returns the lines of all models, the errors of those that have none, and what changed since the base.
func (o *Outcome) Result() *Result {
	out := &Result{
		Schema: Schema, Over: o.Count().Lines, Lines: []budget.Line{}, Errors: []Failure{}, Moved: []Move{},
		Changes: append([]budget.Change{}, o.asks...), Removed: append([]Removal{}, o.removed...),
	}
	if o.base != nil {
		out.Base = &Compared{o.base.rev, o.base.commit, o.base.head}
	}
	for _, m := range o.Models {
		for _, x := range m.Cases {
			out.Lines = append(out.Lines, x.Lines...)
		}
		if m.Err != nil {
			out.Errors = append(out.Errors, Failure{m.Name, report.OneLine(m.Err.Error())})
		}
		if m.moved() {
			out.Moved = append(out.Moved, Move{m.past.name, m.Name})
		}
	}
	return out
}
