package report

import (
	"bytes"
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
	must.OK(t, WhatIfText(&b, r, 80))
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
