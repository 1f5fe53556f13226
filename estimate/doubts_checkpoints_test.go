package estimate

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/parallel"
)

// A training from a graph without lines says by how much it takes less if the model checkpoints its blocks itself, and
// one that was asked for with checkpoints does not.
func TestCheckpointsAreDoubtedWithoutLines(t *testing.T) {
	b, err := Bind(openGraph(t, "", "vit_b_16", "ts-train"), Options{Batch: 2})
	if err != nil {
		t.Fatal(err)
	}
	doubt := func(s Step) (fewer, allocated int64) {
		sim, err := b.Simulate(s)
		if err != nil {
			t.Fatal(err)
		}
		list, err := b.doubts(s, sim)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list, func(g Guess) bool { return g.Name == noCheckpoints }); i >= 0 {
			fewer = list[i].Fewer
		}
		return fewer, sim.Peak.Allocated
	}
	fewer, plain := doubt(Step{})
	s := Step{}
	s.Checkpoint = parallel.Blocks
	again, least := doubt(s)
	if fewer <= 0 || plain-fewer != least || again != 0 {
		t.Errorf("%d of %d less, want %d; with checkpoints %d", fewer, plain, plain-least, again)
	}
	if fewer, _ := doubt(Step{Infer: true}); fewer != 0 {
		t.Errorf("an inference that checkpoints make %d smaller", fewer)
	}
}

// The default export merges biases that are equal, and a backbone with published weights is one all the same.
func TestMergedBiasesHideNoBackbone(t *testing.T) {
	b, err := Bind(openGraph(t, "testdata/published78", "netvlad_vgg16", "dynamo"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := b.Simulate(Step{})
	if err != nil {
		t.Fatal(err)
	}
	g, ok, err := b.frozenBackbone(Step{}, sim)
	if err != nil || !ok || !slices.Equal(g.Layers, []string{"m.encoder"}) || g.Fewer <= 0 {
		t.Errorf("%+v, %v, %v: want that m.encoder may be frozen", g, ok, err)
	}
}
