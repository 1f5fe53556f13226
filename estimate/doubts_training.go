package estimate

import (
	"regexp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
)

// frozenBackbone is the doubt whether a backbone trains whose norms are frozen, which keep their statistics as buffers
// and read them outside of a batch norm: at the other end nothing of it does. Exports do not say requires_grad.
// torchvision's detectors, DETR and detectron2, which freeze norms so, freeze the stem as well, and often a stage or
// two: _resnet_fpn_extractor's trainable_layers, DETR's Backbone, FREEZE_AT of detectron2. Likewise of a network with
// published weights within another model, which many programs freeze: see pretrained.
func (b *Bound) frozenBackbone(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.TrainOnly != "" || s.Freeze != "" || s.LoRA != "" || b.large() {
		return g, false, nil
	}
	module := ""
	for _, name := range frozenNorms(sim.prog) {
		if g.Places++; g.Places == 1 {
			module = name
		}
		for module != "" && !strings.HasPrefix(name+".", module+".") {
			module = module[:max(strings.LastIndexByte(module, '.'), 0)]
		}
	}
	takes := "layers whose norms are frozen taken to train all the same, which --freeze decides"
	if module == "" || g.Places < fewestFrozen {
		if b.opt.BuiltIn {
			return g, false, nil
		}
		if module, g.Places = pretrained(sim.prog); module == "" {
			g.Layers, g.Places = featuresOfVGG(sim.prog)
		} else {
			g.Layers = []string{module}
		}
		if len(g.Layers) == 0 {
			return g, false, nil
		}
		takes = "layers that begin as a network with published weights does taken to train as well, which --freeze decides"
	}
	if len(g.Layers) == 0 {
		g.Layers = []string{module}
	}
	s.Freeze = freezing(g.Layers)
	peak, err := b.peakAllocated(s, sim, false)
	if err != nil { // nothing trains then
		return g, false, nil
	}
	g.Name, g.Takes = frozenLayers, takes
	g.between(sim, peak)
	return g, true, nil
}

// freezing is what --freeze takes for some modules.
func freezing(modules []string) string {
	parts := make([]string, len(modules))
	for i, m := range modules {
		parts[i] = regexp.QuoteMeta(m + ".")
	}
	if len(parts) == 1 {
		return "^" + parts[0]
	}
	return "^(" + strings.Join(parts, "|") + ")"
}

// featuresOfVGG returns the modules that VGG's convolutions are in where a program has cut its features into several,
// enc_1 to enc_4 of AdaIN: from 3 to 64 channels, then each with as many as it is given or twice that, in the order of
// the file, to 256 at least. Others have parameters too.
func featuresOfVGG(p *program.Program) (modules []string, parameters int) {
	var run []string
	channels := int64(0)
	for _, id := range p.Params {
		v := &p.Values[id]
		switch {
		case len(v.Shape) != 4:
			continue
		case channels == 0 && slices.Equal(v.Shape, []int64{64, 3, 3, 3}),
			channels > 0 && v.Shape[1] == channels && v.Shape[2] == 3 && v.Shape[3] == 3 && v.Shape[0] <= 512 &&
				(v.Shape[0] == channels || v.Shape[0] == 2*channels):
			run, channels = append(run, v.Name), v.Shape[0]
			continue
		}
		if channels > 0 {
			break
		}
	}
	if channels < 256 || len(run) < fewestConvolutions-2 {
		return nil, 0
	}
	for _, name := range run {
		if module, _, ok := strings.Cut(name, "."); ok && !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	for _, id := range p.Params {
		module, _, _ := strings.Cut(p.Values[id].Name, ".")
		if slices.Contains(modules, module) {
			parameters++
		}
	}
	if parameters == len(p.Params) || len(modules) < 2 {
		return nil, 0
	}
	return modules, parameters
}

// fewestFrozen is how many frozen norms make a backbone.
const fewestFrozen = 4

// pretrained returns the module, beside others with parameters, that begins as the networks do whose trained weights
// torchvision and timm have: by two convolutions of 3 x 3 as VGG's features, numbered in one Sequential, or one of
// 7 x 7 as ResNets and DenseNets; and how many parameters it has.
func pretrained(p *program.Program) (module string, parameters int) {
	stem := ""
	shapes := map[string][]int64{}
	for _, id := range p.Params {
		v := &p.Values[id]
		shapes[v.Name] = v.Shape
		if stem == "" && slices.Equal(v.Shape, []int64{64, 3, 7, 7}) {
			stem = v.Name
		}
	}
	for _, id := range p.Params {
		v := &p.Values[id]
		of, first := strings.CutSuffix(v.Name, ".0.weight")
		if first && stem == "" && slices.Equal(v.Shape, []int64{64, 3, 3, 3}) &&
			(slices.Equal(shapes[of+".5.weight"], []int64{128, 64, 3, 3}) ||
				slices.Equal(shapes[of+".7.weight"], []int64{128, 64, 3, 3})) {
			stem = v.Name
		}
	}
	for at := range stem {
		if stem[at] != '.' {
			continue
		}
		within, convolutions := 0, 0
		for name, shape := range shapes {
			if strings.HasPrefix(name, stem[:at+1]) {
				within++
				if len(shape) == 4 {
					convolutions++
				}
			}
		}
		if within < len(shapes) {
			if within < fewestPretrained && convolutions < fewestConvolutions {
				return "", 0
			}
			return stem[:at], within
		}
	}
	return "", 0
}

// Such a network has so many parameters, or so many convolutions (VGG11's) where an export merged equal biases.
const (
	fewestPretrained   = 16
	fewestConvolutions = 8
)

// frozenNorms returns the modules that keep a running variance which no batch norm reads.
func frozenNorms(p *program.Program) (modules []string) {
	other, norm := map[program.ValueID]bool{}, map[program.ValueID]bool{}
	for i := range p.Calls {
		read := other
		if program.Of(p.Calls[i].Op).Is(program.ChannelNorm) {
			read = norm
		}
		for _, v := range p.Calls[i].In {
			read[v] = true
		}
	}
	for id := range p.Values {
		v, id := &p.Values[id], program.ValueID(id)
		if module, ok := strings.CutSuffix(v.Name, ".running_var"); ok && other[id] && !norm[id] {
			modules = append(modules, module)
		}
	}
	return modules
}

// sparseGradients is the doubt whether tables of embeddings have sparse gradients, nn.Embedding(sparse=True), which
// exports do not say: then one has the rows that were looked up, and their places. It is a doubt of models that are
// tables for the most part, which is where programs ask for it, and it is about what the gradients take alone.
func (b *Bound) sparseGradients(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer {
		return g, false, nil
	}
	p := sim.prog
	const place = 8 // bytes of a row's number
	rows, only := map[program.ValueID]int64{}, map[program.ValueID]bool{}
	for i := range p.Calls {
		c := &p.Calls[i]
		for k, v := range c.In {
			if v == program.NoValue || p.Values[v].Kind != program.Parameter {
				continue
			}
			if _, seen := only[v]; !seen {
				only[v] = true
			}
			only[v] = only[v] && program.Of(c.Op).Is(program.Table) && k == 0
			if only[v] && len(c.In) > 1 && c.In[1] != program.NoValue {
				rows[v] += program.Numel(p.Values[c.In[1]].Shape)
			}
		}
	}
	var all, tables, fewer int64
	for _, v := range p.Params {
		bytes := p.Values[v].Bytes()
		all += bytes
		if !only[v] || len(p.Values[v].Shape) != 2 || p.Values[v].Frozen {
			continue
		}
		tables += bytes
		width := bytes / max(p.Values[v].Shape[0], 1)
		fewer += max(bytes-rows[v]*(width+place), 0)
		g.Places++
	}
	if g.Places == 0 || 2*tables <= all || fewer == 0 {
		return g, false, nil
	}
	g.Name, g.Takes = sparseTables, "tables of embeddings taken for ones without sparse=True, which exports do not say"
	g.Weighed, g.Fewer = true, min(fewer, sim.Peak.Allocated)
	return g, true, nil
}

// ownFunctions is the doubt what functions of autograd save that the program itself has: what they are given, or all
// that autograd would save of their calls; and of steps with surrogate gradients, nothing or their results too.
func (b *Bound) ownFunctions(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.Checkpoint != "" || s.Compile || b.large() {
		return g, false, nil
	}
	_, functions, _ := lifetime.Regions(sim.prog)
	functions = slices.DeleteFunc(functions, func(f program.Span) bool {
		_, certain := lifetime.Recomputes(sim.prog, f)
		return certain
	})
	steps := 0
	for i := range sim.prog.Calls {
		at := int32(i)
		if program.Of(sim.prog.Calls[i].Op).Is(program.Surrogate) && !slices.ContainsFunc(functions, func(f program.Span) bool {
			return f.First <= at && at <= f.Last
		}) {
			steps++
		}
	}
	if g.Places = len(functions) + steps; g.Places == 0 {
		return g, false, nil
	}
	other, err := b.again(map[string]bool{ownFunction: true}, nil, true).peakAllocated(s, sim, true)
	if err != nil {
		return g, false, err
	}
	peaks := []int64{other}
	if steps > 0 {
		most := b.again(nil, map[string]bool{lifetime.OwnResults: true}, true)
		if other, err = most.peakAllocated(s, sim, true); err != nil {
			return g, false, err
		}
		peaks = append(peaks, other)
	}
	g.Name, g.Takes = ownFunction, "a torch.autograd.Function of the program's own taken to save what it is given"
	g.between(sim, peaks...)
	return g, true, nil
}

// checkpoints is the doubt whether the model checkpoints its repeated blocks itself, torch.utils.checkpoint in its
// forward, of a graph without lines: these alone say so, as exporters write the calls of a checkpoint as all others.
func (b *Bound) checkpoints(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if s.Infer || s.Checkpoint != "" || s.Compile || b.large() {
		return g, false, nil
	}
	if sim.prog.Sources != nil {
		return b.segments(s, sim)
	}
	if s.GPUs > 1 || b.opt.BuiltIn {
		return g, false, nil
	}
	blocks, _ := parallel.RepeatedBlocks(sim.prog)
	if len(blocks) == 0 {
		return g, false, nil
	}
	s.Checkpoint = parallel.Blocks
	peak, err := b.peakAllocated(s, sim, false)
	if err != nil { // no blocks that a checkpoint can be put around
		return g, false, nil
	}
	g = Guess{Name: noCheckpoints, Places: len(blocks),
		Takes: "repeated blocks taken to keep what they compute, which a graph without lines does not say"}
	g.between(sim, peak)
	return g, g.Fewer > 0, nil
}

// segments is the doubt into how many segments a checkpoint_sequential divides its modules, where its line has a name
// for that: from one, which is not checkpointed, to as many as the root of the number of modules, or as these.
func (b *Bound) segments(s Step, sim *Simulation) (g Guess, ok bool, err error) {
	if g.Places = lifetime.OpenSegments(sim.prog); g.Places == 0 {
		return g, false, nil
	}
	var peaks []int64
	for _, segments := range []string{lifetime.NoCheckpoints, lifetime.RootSegments} {
		peak, err := b.again(nil, map[string]bool{segments: true}, true).peakAllocated(s, sim, false)
		if err != nil {
			return g, false, err
		}
		peaks = append(peaks, peak)
	}
	g.Name = noCheckpoints
	g.Takes = "checkpoint_sequential taken for one segment, which is not checkpointed: its line does not say how many"
	g.between(sim, peaks...)
	return g, g.Fewer > 0 || g.Bytes > 0, nil
}
