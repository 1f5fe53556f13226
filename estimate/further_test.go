package estimate

import "testing"

// A furtherSet is a folder of measured models that are not built in, and the errors that their estimates stay within: what
// was reached when the limits were written, rounded up a little.
type furtherSet struct {
	dir          string
	title        string
	best, dynamo []limits // from the export made for training; trainings from the one of torch.export
	holds, above float64  // the upper bound: see holdBound
}

var furtherSets = []furtherSet{
	{
		dir: "testdata/further51", title: "51 further models",
		best: []limits{
			{"train fp32", spread{0.05, 0.7, 10.5}, spread{0.2, 5, 17}},
			{"train amp-bf16", spread{0.1, 0.4, 16.6}, spread{0.4, 6, 22}},
			{"train bf16", spread{0.1, 0.6, 7}, spread{0.3, 7, 14}},
			{"infer fp32", spread{0.05, 9, 53}, spread{0.05, 12.3, 47.5}},
			{"infer bf16", spread{0.05, 8.5, 47.5}, spread{0.05, 11.3, 41.5}},
		},
		dynamo: []limits{
			{"train fp32", spread{0.05, 0.6, 4}, spread{0.2, 4.4, 15.5}},
			{"train amp-bf16", spread{0.1, 0.5, 16.6}, spread{0.5, 7, 22}},
			{"train bf16", spread{0.1, 0.6, 4}, spread{0.1, 8, 14}},
		},
		holds: 96, above: 5.2, // three models take the largest of a dimension, where the bound has room for amax
	},
	{
		dir: "testdata/further54", title: "54 further models",
		best: []limits{
			{"train fp32", spread{0.05, 0.5, 3.3}, spread{0.3, 5, 17}},
			{"train amp-bf16", spread{0.1, 0.4, 2.3}, spread{0.4, 3, 10.5}},
			{"train bf16", spread{0.1, 0.4, 3.3}, spread{0.2, 5.6, 9}},
			{"infer fp32", spread{0.05, 5.2, 13.2}, spread{0.05, 10, 23}},
			{"infer bf16", spread{0.05, 5.2, 12.2}, spread{0.05, 11, 20.2}},
		},
		dynamo: []limits{
			{"train fp32", spread{0.1, 0.4, 3.3}, spread{0.4, 4.6, 7.5}},
			{"train amp-bf16", spread{0.1, 0.5, 2.3}, spread{0.4, 1.8, 10.5}},
			{"train bf16", spread{0.1, 0.4, 3.3}, spread{0.2, 4.3, 9}},
		},
		holds: 95.9, above: 4.3,
	},
	{
		dir: "testdata/further60a", title: "60 further models",
		best: []limits{
			{"train fp32", spread{0.1, 1.1, 58.9}, spread{0.3, 6.9, 50.1}},
			{"train amp-bf16", spread{0.2, 1.4, 46.6}, spread{1, 6.7, 49.1}},
			{"train bf16", spread{0.1, 0.3, 69}, spread{0.9, 6.2, 54.8}},
			{"infer fp32", spread{0.1, 20.6, 31.2}, spread{0.3, 20.3, 31.1}},
			{"infer bf16", spread{0.3, 19.8, 28.9}, spread{0.9, 20.3, 35.3}},
		},
		dynamo: []limits{
			{"train fp32", spread{0.05, 1, 15.5}, spread{0.2, 5.4, 12.8}},
			{"train amp-bf16", spread{0.2, 1.3, 10.5}, spread{1, 4, 13.4}},
			{"train bf16", spread{0.05, 0.3, 15.3}, spread{0.9, 4.3, 26.4}},
		},
		holds: 92.8, above: 4.7,
	},
	{
		dir: "testdata/further60b", title: "another 60 further models",
		best: []limits{
			{"train fp32", spread{0.2, 6.8, 29.7}, spread{0.7, 7.1, 30.2}},
			{"train amp-bf16", spread{0.2, 3.8, 24.2}, spread{1.1, 8.2, 45.1}},
			{"train bf16", spread{0.1, 2.9, 31.1}, spread{1, 11, 47.6}},
			{"infer fp32", spread{0.5, 16.8, 30.6}, spread{1.1, 16.6, 24.5}},
			{"infer bf16", spread{0.4, 16.1, 79.8}, spread{0.9, 19.6, 99.5}},
		},
		dynamo: []limits{
			{"train fp32", spread{0.2, 6.8, 29.7}, spread{1, 7.1, 30.2}},
			{"train amp-bf16", spread{0.2, 3.8, 24.2}, spread{1.1, 8.1, 45.1}},
			{"train bf16", spread{0.1, 5.7, 31.1}, spread{1.4, 11, 47.6}},
		},
		holds: 93.2, above: 5.9,
	},
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
				hold(t, all, s.best)
				hold(t, trained, s.dynamo)
				holdBound(t, all, s.holds, s.above)
			}
		})
	}
}
