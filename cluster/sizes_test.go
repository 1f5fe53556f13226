package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

func TestSizes(t *testing.T) {
	parse := func(s string) (n int64, err error) {
		_, err = fmt.Sscanf(s, "%dGiB", &n)
		return n << 30, err
	}
	site, err := ReadSizes(strings.NewReader("gpus:\n  Big: 79GiB\n  vram40: 38GiB\n"), parse)
	must.OK(t, err)
	for name, want := range map[string]Size{
		"big":                   {Bytes: 79 << 30},
		"vram40":                {Bytes: 38 << 30},
		"vram80":                {Bytes: 80 << 30 / 100 * 93, Guessed: true},
		"gpumem24":              {Bytes: 24 << 30 / 100 * 93, Guessed: true},
		"weird-40":              {Bytes: 40 << 30 / 100 * 93, Guessed: true},
		"a100_3g.40gb":          {Bytes: 40 << 30 / 100 * 93, Guessed: true, MIG: true},
		"1g.10gb":               {Bytes: 10 << 30 / 100 * 93, Guessed: true, MIG: true},
		"rtx4090":               {Bytes: 25_393_692_672},
		"t4":                    {Bytes: 15_655_829_504},
		"a100-80gb":             {Bytes: 84_974_239_744},
		"NVIDIA A100-SXM4-40GB": {Bytes: 42_285_268_992},
	} {
		if got, ok := site.Of(name); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "gpu", "cpu", "unknown", "x-100", "rack7", "node-3", "tesla"} {
		if got, ok := (Sizes{}).Of(name); ok {
			t.Errorf("%q is taken for a GPU of %d bytes", name, got.Bytes)
		}
	}
	for _, bad := range []string{"gpus: 3", "gpus:\n  a: 0GiB", "gpus:\n  a: much", "gpu:\n  a: 1GiB",
		"gpus:\n  a: 1GiB\n  a: 2GiB", "gpus:\n  a: 1GiB\n  A: 2GiB"} {
		if _, err := ReadSizes(strings.NewReader(bad), parse); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
