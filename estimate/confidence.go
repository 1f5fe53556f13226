package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Confidence says which figure of a run is held against a size.
type Confidence string

// The zero Confidence is Safe.
const (
	Predicted Confidence = "predicted" // what is simulated, without a margin
	Likely    Confidence = "likely"    // one run in twenty takes more
	Safe      Confidence = "safe"      // fewer than two runs in a hundred take more, or three: see SafeRate
)

// Confidences are all of them.
func Confidences() []Confidence { return []Confidence{Predicted, Likely, Safe} }

// At returns the device memory with a confidence, and the name of its field in JSON.
func (p *Peak) At(c Confidence) (bytes int64, field string) {
	switch c {
	case Predicted:
		return p.Device, "device_bytes"
	case Likely:
		return p.Likely, "likely_bytes"
	}
	return p.Safe, "safe_bytes"
}

// Ways in that package module does not know.
const (
	RecordedWay module.Way = "recording"
	BuiltIn     module.Way = "built-in" // one of the models whose own runs were measured
	OtherWay    module.Way = "other"    // nothing was measured of what files like this lose
)

// A margin is what Likely and Safe leave above the upper bound, as shares of what a run varies by.
type margin struct{ likely, safe float64 }

// margins are by the way in, for training and inference. Each is the smallest that held in 95 and 98 % of runs, of
// trainings from default exports 97 %, of models that nobody had looked at: docs/accuracy.md has how many, and TestCells
// how often today's answers hold. Recordings have recordedMargin. Those of the built-in models are of the 311 measured
// runs of these very models.
var margins = map[module.Way]struct{ train, infer margin }{
	BuiltIn:              {margin{-0.041, 0}, margin{-0.069, 0}},
	module.TorchExport:   {margin{0.006, 0.076}, margin{0.11, 0.235}},
	module.TorchScript:   {margin{0.056, 0.221}, margin{0.268, 0.62}},
	module.DefaultExport: {margin{0.212, 0.478}, margin{0.139, 0.267}},
	OtherWay:             {margin{0.212, 0.478}, margin{0.268, 0.62}},
}

// safeShare is of how many runs Safe is to hold. Of trainings from default exports, and of what is known no better, one
// in a hundred less than of others: the margin would be more than twice what such a run takes.
func safeShare(way module.Way, infer bool) float64 {
	if _, known := margins[way]; !infer && (way == module.DefaultExport || way == OtherWay || !known) {
		return 0.97
	}
	return 0.98
}

// SafeRate says how many runs take more than what is safe in a share of them.
func SafeRate(share float64) string {
	if share < 0.98 {
		return "fewer than three runs in a hundred take more"
	}
	return "fewer than two runs in a hundred take more"
}

// marginOf returns the margin of a way in, the widest where nothing is known of it.
func marginOf(way module.Way, infer bool) margin {
	m, ok := margins[way]
	if !ok {
		m = margins[OtherWay]
	}
	if infer {
		return m.infer
	}
	return m.train
}

// steadyBytes is what a run varies by however small it is.
const steadyBytes = 64 << 20

// varying is what may be off in what a run reserves: all but parameters, gradients and the optimizer's state, which a
// graph gives to the byte.
func varying(reserved, state int64) int64 { return max(reserved-state, 0) + steadyBytes }

// above returns the figure that a margin leads to, which is no less than the other one.
func (p *Peak) above(share float64, varies, least int64) int64 {
	return max(least, p.UpperBound+int64(share*float64(varies)))
}

// confide sets what the run takes with some confidence, from its upper bound.
func (s *Simulation) confide(way module.Way, infer bool) {
	m := marginOf(way, infer)
	s.Peak.SafeShare = safeShare(way, infer)
	varies := varying(s.Peak.Reserved, s.held[timeline.Parameter]+s.held[timeline.OptimizerState]+s.gradients)
	s.Peak.Likely = s.Peak.above(m.likely, varies, s.Peak.Device)
	s.Peak.Safe = s.Peak.above(m.safe, varies, s.Peak.Likely)
}

// limitSearches has what is likely, safe and at most of a run in which cuDNN searches for its fastest engines end where
// the GPU's memory does, unless the run itself takes more, or without searches: a search leaves out what is not free,
// so that it never makes a run fail.
func (p *Peak) limitSearches(without *Peak, memory int64) {
	least := max(memory, p.Device)
	p.UpperBound = min(p.UpperBound, max(without.UpperBound, least))
	p.Likely = min(p.Likely, max(without.Likely, least))
	p.Safe = min(p.Safe, max(without.Safe, least))
}

// wayNote says what is known of the way in, where it is not much.
func wayNote(way module.Way, infer bool) []Note {
	switch {
	case way == OtherWay:
		return []Note{{Info, "of what files like this one lose nothing was measured: likely and safe have the widest " +
			"margins that PyTorch's exports needed"}}
	case way == module.DefaultExport && !infer:
		m := marginOf(way, infer)
		return []Note{{Info, fmt.Sprintf("safe has room for %.0f %% of what the step takes beyond parameters, gradients and "+
			"optimizer: all but 10 of 393 first trainings from optimised exports needed no more", 100*m.safe)}}
	}
	return nil
}
