package main

import (
	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// A stageSize is what a stage of a pipeline takes, beside what it took in the base.
type stageSize struct {
	stage, begins string // the module that it begins with, as the file has it; "" for the first
	value         int64
	before        *int64 // nil where the base had other stages, or none
}

// stages are those of a case that is a pipeline, by a total that its limits are about; total is that one, or the
// device memory where a stage has no such.
func (x *checkedCase) stages(asked string) (list []stageSize, total string) {
	now, was := x.head.Stages, []estimate.Stage(nil)
	if x.base != nil && len(x.base.Stages) == len(now) {
		was = x.base.Stages
	}
	for i := range now {
		s := stageSize{stage: report.StageOf(i, len(now)), begins: now[i].Begins}
		s.value, total = stageTotal(&now[i], asked)
		if was != nil {
			before, _ := stageTotal(&was[i], asked)
			s.before = &before
		}
		list = append(list, s)
	}
	return list, total
}

func stageTotal(s *estimate.Stage, asked string) (value int64, total string) {
	switch asked {
	case diff.Allocated:
		return s.Allocated, asked
	case diff.Reserved:
		return s.Reserved, asked
	case diff.Likely:
		return s.Likely, asked
	case diff.Safe:
		return s.Safe, asked
	}
	return s.Device, diff.Device
}
