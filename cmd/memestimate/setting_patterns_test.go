package main

import (
	"regexp"
	"strings"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/spelling"
)

// settingPatterns are what settings of a budget file may be whose names are known elsewhere than in package budget, as
// patterns of its JSON Schema.
func settingPatterns() map[string]string {
	var gpus []string
	for _, d := range gpu.Known() {
		gpus = append(gpus, anyCase(d.ID), anyCase(d.Name))
	}
	known := "^(" + strings.Join(gpus, "|") + ")$"
	out := map[string]string{"gpu": known, "fits": known}
	for key, names := range map[string][]string{
		"optimizer": torch.Optimizers, "loss": torch.Losses, "precision": precisions, "mode": {"train",
			"infer", "generate"}, "zero-grad": {"none", "zeros"}, "grad-scaler": {"auto", "on", "off"},
	} {
		out[key] = spelling.Pattern(key, names)
	}
	return out
}

// anyCase is a pattern of a text in capitals or not: JSON Schema has no flag for that.
func anyCase(text string) string {
	var b strings.Builder
	for _, c := range text {
		if lower, upper := strings.ToLower(string(c)), strings.ToUpper(string(c)); lower != upper {
			b.WriteString("[" + upper + lower + "]")
		} else {
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String()
}
