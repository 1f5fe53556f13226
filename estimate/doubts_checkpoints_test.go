package estimate

import (
	"bytes"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program/parallel"
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

// A line of checkpoint_sequential that has a name for the number of segments leaves open what is checkpointed: nothing
// is taken to be, and the report says by how much less a training takes that has as many as it may. One that has the
// number leaves nothing open.
func TestSegmentsAreDoubted(t *testing.T) {
	file, err := readGraph(graphFileIn("testdata/constructs", "segments", "dynamo-train"))
	if err != nil {
		t.Fatal(err)
	}
	doubt := func(segments string) (g Guess, peak int64) {
		line := []byte("checkpoint_sequential(self.blocks, " + segments + ", x,")
		edited := bytes.ReplaceAll(file, []byte("checkpoint_sequential(self.blocks, 2, x,"), line)
		if !bytes.Contains(edited, line) {
			t.Fatal("the construct calls no checkpoint_sequential of two segments")
		}
		b, err := Bind(readModel(t, edited, "segments"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := b.Simulate(Step{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := b.doubts(Step{}, sim)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list, func(g Guess) bool { return g.Name == noCheckpoints }); i >= 0 {
			g = list[i]
		}
		return g, sim.Peak.Allocated
	}
	two, least := doubt("2")
	one, most := doubt("1")
	if two.Name != "" || one.Name != "" || least >= most {
		t.Fatalf("%+v and %+v, %d of two segments and %d of one: want no doubt, and less of two", two, one, least, most)
	}
	g, peak := doubt("n")
	if peak != most || g.Places != 1 || g.Fewer < most-least || g.Bytes != 0 {
		t.Errorf("%d and %+v: want %d, and %d or more bytes less in one place", peak, g, most, most-least)
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
