package estimate

import "testing"

// A furtherSet is a folder of measured models that are not built in. What their estimates come to is recorded, case by
// case, in testdata/figures.txt, which TestFigures compares with, and summed up in docs/ACCURACY.md.
type furtherSet struct{ dir, title string }

var furtherSets = []furtherSet{
	{"testdata/further51", "51 further models"}, {"testdata/further54", "54 further models"},
	{"testdata/further60a", "60 further models"}, {"testdata/further60b", "another 60 further models"},
}

// What is held of every set, be it measured after the rules: half of all cases within 0.5 % of what was allocated and
// 1.5 % of what was reserved, better than the 3.7 % that is published, and nine of ten trainings within 10 % and 12 %.
// Which variables of Python live in an inference no graph tells: what nine in ten of those come to is recorded, and
// held nowhere.
const notHeld = 100 // percent

var defended = []limits{
	{"train fp32", spread{0.5, 10, notHeld}, spread{1.5, 12, notHeld}},
	{"train amp-bf16", spread{0.5, 10, notHeld}, spread{1.5, 12, notHeld}},
	{"train bf16", spread{0.5, 10, notHeld}, spread{1.5, 12, notHeld}},
	{"infer fp32", spread{0.5, notHeld, notHeld}, spread{1.5, notHeld, notHeld}},
	{"infer bf16", spread{0.5, notHeld, notHeld}, spread{1.5, notHeld, notHeld}},
}

// outcomes estimates the cases of a set from one form of export; "" is the best one that a model has.
func (s furtherSet) outcomes(t *testing.T, form string, keep func(measuredCase) bool) []outcome {
	t.Helper()
	cases, only := *casesFile, *onlyForm
	defer func() { *graphs, *casesFile, *onlyForm = "", cases, only }()
	*graphs, *casesFile = s.dir, s.dir+"/steps.json.gz"
	if form != "" {
		*onlyForm = form
	}
	return outcomes(t, keep)
}

// TestAccuracyOnFurtherModels holds the estimate against more sets of measured models. Each was compared once before
// any rule came from them; what they showed became rules since.
func TestAccuracyOnFurtherModels(t *testing.T) {
	needsEveryCase(t)
	if *graphs != "" || *onlyForm != "" {
		t.Skip("a flag says which graphs")
	}
	for _, s := range furtherSets {
		t.Run(s.title, func(t *testing.T) {
			all := s.outcomes(t, "", func(measuredCase) bool { return true })
			summarize(t, all)
			t.Log("trainings from dynamo-train")
			trained := s.outcomes(t, "dynamo-train", func(c measuredCase) bool { return c.Mode == "train" })
			summarize(t, trained)
			if *onlyModel == "" && *onlyCase == "" {
				hold(t, all, defended)
				hold(t, trained, defended[:3])
				holdBound(t, all, upper, 92, 6)
				holdDoc(t, s.title, all)
				holdDoc(t, s.title+trainedTitle, trained)
			}
		})
	}
}
