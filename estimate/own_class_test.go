package estimate

import (
	"bytes"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// A program's own class that is called as one of torch.nn is not run as that one is: its steps stay.
func TestClassesOfAProgramsOwn(t *testing.T) {
	raw, err := readGraph("testdata/constructs/gru_steps.steps-train.onnx.zst")
	if err != nil {
		t.Fatal(err)
	}
	const theirs, own = "torch.nn.modules.rnn.GRU", "speech.model.encoder.GRU" // of one length
	if !bytes.Contains(raw, []byte(theirs)) {
		t.Fatalf("no module is a %s", theirs)
	}
	for class, want := range map[string]bool{theirs: true, own: false} {
		b, err := Bind(readModel(t, bytes.ReplaceAll(raw, []byte(theirs), []byte(class)), ""), Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := b.Program(true)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(p.Calls, func(c program.Call) bool { return c.Op == "gru" }); got != want {
			t.Errorf("%s: run as one call: %v", class, got)
		}
	}
}
