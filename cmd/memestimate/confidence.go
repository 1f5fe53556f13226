package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
)

// A confidenceFlag says which figure of an estimate is held against a size.
type confidenceFlag struct{ name string }

func (c *confidenceFlag) flags(fs *pflag.FlagSet, use string) {
	names := []string{}
	for _, known := range estimate.Confidences() {
		names = append(names, string(known))
	}
	c.name = string(estimate.Safe)
	fs.Var(&oneOf{value: &c.name, names: names}, "confidence",
		use+": "+strings.Join(names, ", ")+
			" (fewer than two runs\nin a hundred take more than safe, one in twenty more than likely)")
}

func (c *confidenceFlag) value() estimate.Confidence { return estimate.Confidence(c.name) }
