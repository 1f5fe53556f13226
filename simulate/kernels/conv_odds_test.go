package kernels

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/gpu"
)

var oddsFigures = flag.String("odds.figures", "", "write the figures of passes to this file, for scripts/measure/odds.py")

// convApart are passes that cuDNN was asked about on a GPU: scripts/measure/apart.py.
// No tree has seen those of convApartJudges.
const (
	convApart       = "testdata/apart.bin.gz"
	convApartJudges = "testdata/apart_judge.bin.gz"
)

// An apartPass is a pass that could run on an engine that cuDNN does not offer without a GPU.
type apartPass struct {
	shape   *ConvShape
	pass    ConvPass
	figures convFeatures
	engine  unofferedEngine
	want    int64
}

// runs says whether that engine runs: what products take is little, and near what others take.
func (p *apartPass) runs() bool {
	if p.engine.extra == extraNone || p.engine.extra == extraImages {
		return near(p.engine.bytes, p.want)
	}
	return nearConv(p.engine.bytes, p.want, 0.001)
}

// apartPasses reads those of a file.
func apartPasses(t testing.TB, file string) (all []apartPass) {
	convs, _ := readConvs(t, file)
	for i := range convs {
		for pass, want := range convs[i].passes {
			s := &convs[i].shape
			w, ok := s.work(ConvPass(pass), gpu.Default())
			if want < 0 || !ok || w.native() {
				continue
			}
			for _, e := range w.unoffered() {
				all = append(all, apartPass{s, ConvPass(pass), w.features(), e, want})
			}
		}
	}
	return all
}

func TestConvOdds(t *testing.T) {
	if *oddsFigures != "" {
		f := convForests[0]()
		var limits [convFigures][]float32
		for figure, list := range f.limits {
			for at := 0; at < len(list); at += 4 {
				limits[figure] = append(limits[figure], floatOf(list[at:at+4]))
			}
		}
		var rows []byte
		for _, p := range slices.Concat(apartPasses(t, convData), apartPasses(t, convAnswers), apartPasses(t, convApart)) {
			rows = append(rows, byte(p.engine.kind), byte(b2i(p.runs())))
			for figure, v := range p.figures {
				bin, _ := slices.BinarySearch(limits[figure], v)
				rows = append(rows, byte(bin))
			}
		}
		if err := os.WriteFile(*oddsFigures, rows, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, file := range []string{convApartJudges, convJudges} {
		var n, right [convKinds]int
		rare, ran := 0, 0 // transforms that are not even doubtful, and of these those that run
		for _, p := range apartPasses(t, file) {
			odds, known := p.engine.odds(&p.figures)
			if !known {
				t.Fatalf("no odds of kind %d", p.engine.kind)
			}
			n[p.engine.kind]++
			right[p.engine.kind] += b2i(odds > 0 == p.runs())
			if p.engine.kind&2 != 0 && chance(odds) <= doubtful {
				rare++
				ran += b2i(p.runs())
			}
		}
		t.Logf("%s: %d transforms that are not doubtful, of which %d run", file, rare, ran)
		if ran*500 > rare {
			t.Errorf("%s: of %d transforms that are not doubtful %d run", file, rare, ran)
		}
		for kind, n := range n {
			if n == 0 {
				continue
			}
			share := percent(right[kind], n)
			t.Logf("%s, kind %d: right of %.2f %% of %d", file, kind, share, n)
			if share < 93.7 || share < 98 && kind&2 != 0 {
				t.Errorf("%s, kind %d: right of %.2f %%", file, kind, share)
			}
		}
	}
}

// Of passes that no tree has seen, most take what cuDNN answers without a GPU and the odds make of it.
func TestAnswersAndOdds(t *testing.T) {
	judges, _ := readConvs(t, convApartJudges)
	answers, _ := readConvs(t, "testdata/apart_answers.bin.gz")
	type tally struct{ n, trees, answers, near, treesAbove, above int }
	var products, others tally
	for i := range judges {
		for pass, want := range judges[i].passes {
			answer, s := answers[i].passes[pass], &judges[i].shape
			if want < 0 || answer < 0 {
				continue
			}
			a := &others
			if w, _ := s.work(ConvPass(pass), gpu.Default()); w.isProduct() {
				a = &products
			}
			p := s.Plan(ConvPass(pass), i, gpu.Default())
			a.n++
			a.trees += b2i(near(p.Bytes, want))
			a.answers += b2i(near(answer, want))
			a.treesAbove += b2i(want > p.Most+p.Most/100+8192)
			p.answered(answer, gpu.Default())
			a.near += b2i(near(p.Bytes, want))
			a.above += b2i(want > p.Most+p.Most/100+8192)
		}
	}
	for _, a := range []struct {
		of string
		tally
		least, most float64
	}{{"products of matrices", products, 94, 1.5}, {"others", others, 96, 1}} {
		t.Logf("%s: %d passes, within 10 %% %.2f %%, the answer alone %.2f %%, trees %.2f %%; the most exceeded %.2f %%, of trees %.2f %%",
			a.of, a.n, percent(a.near, a.n), percent(a.answers, a.n), percent(a.trees, a.n), percent(a.above, a.n),
			percent(a.treesAbove, a.n))
		if percent(a.near, a.n) < a.least || percent(a.above, a.n) > a.most {
			t.Errorf("%s: not as testdata/README.md says", a.of)
		}
	}
}
