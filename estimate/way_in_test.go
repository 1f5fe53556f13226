package estimate

import (
	"errors"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/must"
)

// TestWayIn recognises how every built-in model was exported. Where a file kept all there was to keep, it cannot be
// told from one that was made for training.
func TestWayIn(t *testing.T) {
	want := map[string][]module.Way{
		"ts-train": {module.TorchScript, OtherWay}, "dynamo-train": {module.TorchExport, module.DefaultExport},
		"ts-eval": {OtherWay, module.TorchScript}, "dynamo": {module.DefaultExport},
	}
	count := map[string]map[module.Way][]string{}
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			b, err := Bind(openModel(t, name, form), Options{Batch: 2})
			if _, fixed := errors.AsType[*shape.BindError](err); fixed {
				b, err = Bind(openModel(t, name, form), Options{})
			}
			if err != nil {
				t.Fatalf("%s:%s: %v", name, form, err)
			}
			if count[form] == nil {
				count[form] = map[module.Way][]string{}
			}
			count[form][b.way] = append(count[form][b.way], name)
			if !slices.Contains(want[form], b.way) {
				t.Errorf("%s:%s is taken for %q", name, form, b.way)
			}
		}
	}
	for form, ways := range count {
		all := 0
		for _, names := range ways {
			all += len(names)
		}
		if right := len(ways[want[form][0]]); 4*right < 3*all {
			t.Errorf("%s: %d of %d are recognised: %v", form, right, all, ways)
		}
	}
}
