package estimate

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// absentStages returns what the last stage and the classifier of ResNets take of which the file has the three stages
// before, with where they are missing. torchvision's ResNet makes all four, layer1 to layer4, and a program that reads
// the features of three has the others on the GPU all the same, unless it took them out. The last stage has as many
// blocks as the first, of twice the third's channels, and so four times its weights.
func absentStages(p *program.Program) (places []string, bytes int64) {
	const classes = 1000
	of := map[string]int64{} // what a stage's block takes, net.layer3.0
	width := map[string]int64{}
	var stems []string
	for _, id := range p.Params {
		v := &p.Values[id]
		if stem, ok := strings.CutSuffix(v.Name, "conv1.weight"); ok && slices.Equal(v.Shape, []int64{64, 3, 7, 7}) {
			stems = append(stems, stem)
		}
		at := strings.Index(v.Name, "layer")
		parts := strings.SplitN(v.Name[max(at, 0):], ".", 3)
		if at < 0 || len(parts) < 3 {
			continue
		}
		block := v.Name[:at] + parts[0] + "." + parts[1]
		of[block] += v.Bytes()
		if len(v.Shape) == 4 {
			width[block] = max(width[block], v.Shape[0]*v.DType.Bits()/8)
		}
	}
	for _, stem := range stems {
		first, blocks := of[stem+"layer3.0"], int64(0)
		for of[stem+"layer1."+string(rune('0'+blocks))] > 0 && blocks < 9 {
			blocks++
		}
		if first == 0 || blocks == 0 || of[stem+"layer4.0"] > 0 {
			continue
		}
		places = append(places, stem+"layer4")
		bytes += 4*(first+(blocks-1)*of[stem+"layer3.1"]) + classes*2*width[stem+"layer3.0"]
	}
	return places, bytes
}
