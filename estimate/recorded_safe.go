package estimate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/recording"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// scriptBytes is what kernels that TorchScript compiles for a GPU take outside the allocator, at most: 50 to 100 MiB
// in measured runs.
const scriptBytes = 100 << 20

// recordedShare is of how many runs Safe of a recording is to hold, and safeChance and likelyChance how likely a
// convolution's other engine is that Safe and Likely have no room for.
const (
	recordedShare = 0.985
	safeChance    = 1 - recordedShare
	likelyChance  = 0.05
	searchShare   = 0.034 // above at most, of what a run varies by in which cuDNN searches for its fastest engines
)

// Margins of a recorded run above what its doubts come to, as shares of what it varies by; the first that applies.
// TestMargins computes them.
var (
	valuesMargin   = margin{likely: 0.072, safe: 0.072} // it hangs on values, of which nobody tried all
	lengthsMargin  = margin{likely: 0.136, safe: 0.136} // its batches differ in size, and only the largest were recorded
	compiledMargin = margin{likely: 0.026, safe: 0.044} // Inductor compiled it, which decides some things by timing
	recordedMargin = margin{likely: 0.002, safe: 0.021} // any other
)

// recordedMarginOf names what a recorded run's margin is for.
func recordedMarginOf(rec *recording.Recording, depends *Dependence) (string, margin) {
	switch {
	case depends != nil && !depends.Bound:
		return "values", valuesMargin
	case rec.Noted("batches") != "":
		return "lengths", lengthsMargin
	case slices.ContainsFunc(rec.Ops, func(op recording.Op) bool { return strings.HasPrefix(op.Name, "triton::triton_") }):
		return "compiled", compiledMargin
	}
	return "the others", recordedMargin
}

// confideRecorded sets what a recorded run takes with some confidence: what its doubts come to, a convolution's other
// engine by how likely it is, and a margin for what is wrong and not in doubt. At most has room for the unlikely ones.
func (s *Simulation) confideRecorded(rec *recording.Recording) {
	p, d := &s.Peak, &s.doubts
	outside, values, depends := s.Context, int64(0), dependence(rec)
	if rec.Noted("script") != "" {
		outside += scriptBytes
	}
	if depends != nil {
		values = depends.More
	}
	_, m := recordedMarginOf(rec, depends)
	varies := float64(varying(p.Reserved, s.held[timeline.Parameter]+s.held[timeline.OptimizerState]+s.gradients))
	with := func(chance, share float64) int64 {
		return outside + max(d.addresses, d.engine(p.Reserved, chance)) + max(d.guesses-p.Reserved, 0) + values +
			int64(share*varies)
	}
	p.SafeShare = recordedShare
	p.Likely, p.Safe = with(likelyChance, m.likely), with(safeChance, m.safe)
	p.UpperBound = outside + d.most(p.Reserved) + values + p.Reserved/100 + spareBytes
	if len(rec.Searches) > 0 { // the engine that is found may be any, and leaves other holes
		p.Likely, p.Safe = p.UpperBound, p.UpperBound+int64(searchShare*varies)
	}
	p.UpperBound = max(p.UpperBound, p.Safe)
}

// settles is what to run where a GPU is, to see what a doubt comes to.
const settles = "`memestimate trace -- COMMAND` on the GPU settles it"

// notes say what the run's doubts add to what is safe, and what is too unlikely for that.
func (d *doubts) notes(plans []kernels.ConvPlan, p *Peak) (notes []Note) {
	say := func(format string, args ...any) { notes = append(notes, Note{Info, fmt.Sprintf(format, args...)}) }
	safe := d.engine(p.Reserved, safeChance)
	for i := range d.engines {
		e := &d.engines[i]
		if e.reserved > safe && i > 0 || e.reserved-p.Reserved < spareBytes {
			continue
		}
		room := "safe has room for that"
		if e.reserved > safe {
			room = "at most has room for that, safe has not"
		}
		say("cuDNN's choice for %s is in doubt: %s is taken, and in %s in a hundred %s or more, with which %s more are "+
			"reserved; %s; %s", plans[e.plan].Of, taken(plans[e.plan].Bytes), hundredths(e.chance), mib(e.bytes),
			mib(e.reserved-p.Reserved), room, settles)
		if e.reserved <= safe {
			break
		}
	}
	if more := d.addresses - p.Reserved; more > 0 {
		say("where the driver puts segments decides between cached blocks of equal size: at some addresses %s more are "+
			"reserved, for which safe has room; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True takes the doubt away", mib(more))
	}
	if more := d.guesses - p.Reserved; more > 0 {
		say("with what is guessed at its most %s more are reserved, for which safe has room; %s", mib(more), settles)
	}
	return notes
}

func taken(workspace int64) string {
	if workspace == 0 {
		return "no workspace"
	}
	return "a workspace of " + mib(workspace)
}

// hundredths writes a chance.
func hundredths(chance float64) string {
	if chance < 0.01 {
		return "fewer than 1"
	}
	return fmt.Sprintf("%.0f", 100*chance)
}
