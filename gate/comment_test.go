package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
)

// manyChecked makes models with hostile names, of which most changed in many layers and some are over their limits.
func manyChecked(n, layers int) (out []*Model) {
	made := func(extra int64) *estimate.Report {
		r := &estimate.Report{Peak: &estimate.Peak{Device: 1000 + extra}, Coverage: estimate.Coverage{}}
		for i := range layers {
			name := fmt.Sprintf("<b>|@team `%d` %s", i, strings.Repeat("n", i%200))
			r.Layers = append(r.Layers, module.Layer{Name: name, Op: name, Params: int64(i) + extra,
				Outputs: []module.Tensor{{DType: "float32", Shape: []int64{int64(i)}}}})
		}
		return r
	}
	for i := range n {
		c := &Model{Name: fmt.Sprintf("nets/|<!-- memestimate -->\n%d.onnx", i), Entry: &budget.Model{}}
		c.past = past{state: []string{isChanged, isChanged, isSame, isNew}[i%4], name: c.Name}
		if i%9 == 8 {
			c.Err = errors.New("broken")
		}
		limit := int64(i % 3)
		x := Case{Label: "batch 1", Head: made(5)}
		if c.past.state != isNew {
			x.Base = made(0)
		}
		x.Lines = []budget.Line{{Model: c.Name, Settings: x.Label, Total: diff.Device, Value: 1005, Limit: &limit,
			LimitText: "1 B", Over: i%3 == 1}}
		c.Cases = []Case{x}
		out = append(out, c)
	}
	return out
}

// A comment and a summary keep within what GitHub takes, with their folds closed, the outcome first, and the marker of
// the sticky comment nowhere at the beginning of a line.
func TestCommentFits(t *testing.T) {
	for _, n := range []int{0, 1, 5, 40, 500} {
		for _, layers := range []int{1, 300} {
			all := manyChecked(n, layers)
			for _, room := range []int{CommentRoom, SummaryRoom, 20_000, 100} {
				body := (&Outcome{Models: all, when: time.Unix(0, 0)}).Comment(room, true)
				if len(body) > room {
					t.Errorf("%d models of %d layers: %d bytes, want %d at most", n, layers, len(body), room)
				}
				if room == 100 {
					continue
				}
				if strings.Count(body, "\n<details>") != strings.Count(body, "\n</details>\n") {
					t.Errorf("%d models of %d layers, %d bytes: folds do not close", n, layers, room)
				}
				if !strings.HasPrefix(body, "### GPU memory: ") || strings.Contains(body, "\n<!-- memestimate") {
					t.Errorf("%.200q", body)
				}
				if n > 4 && !strings.Contains(body, " over budget") {
					t.Errorf("%d models: the outcome is not told: %.200q", n, body)
				}
			}
		}
	}
}
