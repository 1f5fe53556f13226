package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
)

// A confidenceFlag says which figure of an estimate is held against a size.
type confidenceFlag struct{ name string }

func (c *confidenceFlag) flags(fs *pflag.FlagSet, use string) {
	c.name = string(estimate.Safe)
	fs.Var(oneOf("", &c.name, confidenceNames()), "confidence",
		use+": "+strings.Join(confidenceNames(), ", ")+
			" (fewer than two runs in a hundred, three of trainings from "+
			"default exports, take more than safe, one in twenty more than likely)")
}

func confidenceNames() (names []string) {
	for _, known := range estimate.Confidences() {
		names = append(names, string(known))
	}
	return names
}

func (c *confidenceFlag) value() estimate.Confidence { return estimate.Confidence(c.name) }
