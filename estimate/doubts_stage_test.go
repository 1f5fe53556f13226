package estimate

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
)

// A ResNet of which a program reads three stages has the fourth and a classifier on the GPU, which no file shows.
func TestAbsentStages(t *testing.T) {
	resnet := func(stages ...string) *program.Program {
		p := withParameters([]int64{64, 3, 7, 7}, "body.conv1.weight")
		for _, name := range stages {
			for _, v := range withParameters([]int64{256, 256, 3, 3}, name+".conv1.weight", name+".conv2.weight").Values {
				if v.Name != "" {
					p.Params, p.Values = append(p.Params, program.ValueID(len(p.Values))), append(p.Values, v)
				}
			}
		}
		return p
	}
	three := []string{"body.layer1.0", "body.layer1.1", "body.layer2.0", "body.layer3.0", "body.layer3.1", "body.layer3.2"}
	const block, fc = 2 * 256 * 256 * 9 * 4, 1000 * 512 * 4
	if places, bytes := absentStages(resnet(three...)); !slices.Equal(places, []string{"body.layer4"}) ||
		bytes != 2*4*block+fc {
		t.Errorf("%v %d, want body.layer4, %d", places, bytes, 2*4*block+fc)
	}
	if places, bytes := absentStages(resnet(append(three, "body.layer4.0")...)); len(places) > 0 || bytes != 0 {
		t.Errorf("%v %d of a whole one", places, bytes)
	}
	if places, bytes := absentStages(resnet("body.layer1.0", "body.layer2.0")); len(places) > 0 || bytes != 0 {
		t.Errorf("%v %d of one whose third stage is missing too", places, bytes)
	}
}
