package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/test/must"
)

// On a screen a setting has a line if it moves the run or decides whether it fits.
func TestWhatIfText(t *testing.T) {
	yes, no := true, false
	r := &estimate.Report{
		Peak: &estimate.Peak{Device: 100 << 30}, OOM: &estimate.OOM{},
		WhatIf: []estimate.Variant{
			{Change: "--precision bf16", Device: 60 << 30, Fits: &yes},
			{Change: "--optimizer sgd", Device: 100<<30 - 1, Fits: &no},
			{Change: "--optimizer sgdm", Device: 100<<30 - 2, Fits: &no},
			{Change: "--foreach=false", Device: 100<<30 - 3, Fits: &yes},
			{Change: "--compile", Device: 100<<30 + 1, Fits: &no},
			{Change: "--gpus 8 --parallel tp", Error: "parallel: no linear layer can be divided"},
		},
	}
	var b bytes.Buffer
	WhatIfText(&b, r, 80)
	const want = `what if           device, GiB   change
----------------------------------------------
as it is               100.00
--precision bf16        60.00  -40.0 %  fits
--foreach=false        100.00    0.0 %  fits
less than 1 %: --optimizer sgd, sgdm, --compile
--gpus 8 --parallel tp cannot be simulated: no linear layer can be divided
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// Where warnings leave no room for the heaviest guess, the first screen says that there is one.
func TestGuessIsNeverSilent(t *testing.T) {
	long := strings.Repeat("A warning that takes its room. ", 60)
	for _, notes := range [][]estimate.Note{
		nil, {{Level: estimate.Warning, Text: long}},
		{{Level: estimate.Warning, Text: long}, {Level: estimate.Info, Text: "x"}},
		{{Level: estimate.Warning, Text: long}, {Level: estimate.Warning, Text: long}},
	} {
		r := &estimate.Report{Peak: &estimate.Peak{}, Notes: notes}
		r.Peak.Allocated, r.Peak.Device = 1<<30, 2<<30
		r.Guesses = []estimate.Guess{{Name: "tied-head", Takes: strings.Repeat("what is taken for something else ", 12),
			Made: true, Weighed: true, Bytes: 1 << 29, Assume: "tied-head=no"}}
		var b strings.Builder
		must.OK(t, (&Answer{Report: r}).Text(&b, Look{}))
		if !strings.Contains(b.String(), "guess") {
			t.Errorf("%d notes: no word of the guess:\n%s", len(notes), &b)
		}
		if n := strings.Count(b.String(), "\n"); n > answerLines {
			t.Errorf("%d notes: %d lines", len(notes), n)
		}
	}
}

// A layer's number is shown whole or not at all: the 4 of 24 is another layer.
func TestEndOfName(t *testing.T) {
	s := &screen{}
	for _, c := range []struct {
		name string
		room int
		want string
	}{
		{"conv1", 14, "conv1"},
		{"m.model.layers.4.self_attn", 26, "m.model.layers.4.self_attn"},
		{"m.model.layers.4.self_attn", 22, "..layers.4.self_attn"},
		{"m.model.layers.24.self_attn", 14, "..24.self_attn"},
		{"m.model.layers.124.self_attn", 14, "..self_attn"},
		{"m.model.layers.4.self_attn", 14, "..4.self_attn"},
		{"/down/ConvolutionTransposed", 14, "..onTransposed"},
	} {
		if got := s.end(c.name, c.room); got != c.want || len(got) > c.room {
			t.Errorf("%s in %d characters: %q, want %q", c.name, c.room, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", -2048: "-2.00 KiB",
		102228128: "97.49 MiB", 1<<20 - 1: "1.00 MiB", 1 << 30: "1.00 GiB", math.MaxInt64: "8.00 EiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestChange(t *testing.T) {
	u := sizeUnit{"MiB", 1 << 20}
	for n, want := range map[int64]string{0: "0.00", -100: "0.00", 100: "0.00", 1 << 20: "+1.00", -5 << 30: "-5,120.00"} {
		if got := u.change(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// A few words say why: neither the setting that an error begins with nor what to do about it.
func TestRefusal(t *testing.T) {
	for err, want := range map[string]string{
		"parallel: no blocks of the graph repeat: name the modules to split": "no blocks of the graph repeat",
		"stage 0: parallel: more than one tensor passes: from stage 0":       "more than one tensor passes",
		"DeepSpeed in fp16: that is not simulated":                           "DeepSpeed in fp16",
		"simulate: \x1b[1m": `\x1b[1m`,
	} {
		if got := Refusal(err); got != "cannot be simulated: "+want {
			t.Errorf("%q: %q, want %q", err, got, want)
		}
	}
}
