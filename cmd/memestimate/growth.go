package main

import "github.com/memestimate/memestimate/gate/budget"

// A growthValue is the value of --max-growth.
type growthValue struct {
	budget.Growth
	set bool
}

// Set reads a share or a size.
func (v *growthValue) Set(s string) (err error) {
	v.Growth, err = budget.ParseGrowth(s)
	v.set = err == nil
	return err
}

// Type says what the flag takes.
func (v *growthValue) Type() string { return "GROWTH" }

// String returns the value, "" before it is set.
func (v *growthValue) String() string {
	if !v.set {
		return ""
	}
	return v.Growth.String()
}
