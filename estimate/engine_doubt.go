package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// An engineDoubt is a recorded convolution that may take more, had cuDNN chosen as any tree does, and what is then
// allocated.
type engineDoubt struct {
	plan      *kernels.ConvPlan // nil for none
	allocated int64
}

// doubtedEngine returns the convolution with which most would be allocated, were it at its most.
func doubtedEngine(plans []kernels.ConvPlan, run *caching.LargeRequests) (d engineDoubt) {
	most := make([]int64, len(plans))
	for i := range plans {
		if plans[i].Most > plans[i].Bytes {
			most[i] = plans[i].Most
		}
	}
	for i, need := range run.Needs(most) {
		if most[i] > 0 && need > d.allocated {
			d = engineDoubt{&plans[i], need}
		}
	}
	return d
}

// toldDoubts is by what part of what is allocated an engine in doubt has to raise it to be told.
const toldDoubts = 10

// note says what another engine would take, where it is much; "" where it is not.
func (d engineDoubt) note(peak int64) string {
	if d.plan == nil || d.allocated-peak < peak/toldDoubts {
		return ""
	}
	taken := "no workspace is"
	if d.plan.Bytes > 0 {
		taken = "a workspace of " + mib(d.plan.Bytes) + " is"
	}
	return fmt.Sprintf("cuDNN's choice for %s is in doubt: %s taken, another engine has up to %s, and with it %s are "+
		"allocated", d.plan.Of, taken, mib(d.plan.Most), mib(d.allocated))
}
