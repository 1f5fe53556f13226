package estimate

import (
	"os"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/testfile"
)

// What cuDNN answers without a GPU makes of the first sight of convolutional models: the rows of docs/workspaces.md.
func TestConvolutionalAtFirstSight(t *testing.T) {
	const folder = "testdata/convolutional15/"
	steps := map[string]measuredCase{}
	for _, c := range readCases(t, folder+"steps.json.gz") {
		steps[c.Model+" "+c.DType] = c
	}
	var first struct {
		Answers []struct {
			recordedAnswer
			Way string `json:"way"`
		} `json:"answers"`
	}
	testfile.JSON(t, folder+"first.json.gz", &first)
	doc, err := os.ReadFile("../docs/workspaces.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"trees", "cudnn"} {
		var answers []recordedAnswer
		var measured []measuredCase
		for _, a := range first.Answers {
			m, ok := steps[a.Model+" "+a.DType]
			if !ok {
				t.Fatalf("%s in %s was not measured", a.Model, a.DType)
			}
			if a.Way == way {
				answers, measured = append(answers, a.recordedAnswer), append(measured, m)
			}
		}
		if len(answers) != len(steps) {
			t.Fatalf("%d answers by %s about %d runs", len(answers), way, len(steps))
		}
		row := firstSightRow(way, answers, measured, func(measuredCase) bool { return true })
		t.Log(row)
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/workspaces.md lacks %s", row)
		}
	}
}
