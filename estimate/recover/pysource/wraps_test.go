package pysource

import "testing"

// Of a stack the outermost line counts that checkpoints what it calls, or applies a function of autograd, whose forward
// is no module's. A graph that torch.export made of a part of the program is that of no_grad or of autocast.
func TestWraps(t *testing.T) {
	const block = "x = checkpoint(self.block, x, use_reentrant=False)"
	for _, c := range []struct {
		name   string
		frames []Frame // each called by the one before
		want   Wrap
		level  int
	}{
		{"a checkpointed module", []Frame{{Func: "forward", Source: block}, {Func: "forward", Source: "return self.f(x)"}},
			Wrap{1, Checkpoint}, 2},
		{"the line itself", []Frame{{Func: "forward", Source: block}}, Wrap{1, Checkpoint}, 1},
		{"transformers'", []Frame{{Func: "forward", Source: "h = self._gradient_checkpointing_func(layer.__call__, h)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Checkpoint}, 2},
		{"use_reentrant=True", []Frame{{Func: "forward", Source: "x = cp.checkpoint(self.block, x)"},
			{File: "/lib/torch/utils/checkpoint.py", Func: "forward", Source: "outputs = run_function(*args)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Function}, 2},
		{"in segments", []Frame{{Func: "forward", Source: "x = checkpoint_sequential(self.layers, 2, x)"},
			{File: "/lib/torch/utils/checkpoint.py", Func: "forward", Source: "input = functions[j](input)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Sequential}, 2},
		{"in segments, without folders", []Frame{{Func: "forward", Source: "x = checkpoint_sequential(self.layers, 2, x)"},
			{File: "checkpoint.py", Func: "forward", Source: "input = functions[j](input)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Sequential}, 2},
		{"in segments, use_reentrant=True", []Frame{
			{Func: "forward", Source: "x = checkpoint_sequential(self.layers, 2, x)"},
			{File: "/lib/torch/utils/checkpoint.py", Func: "forward", Source: "outputs = run_function(*args)"},
			{File: "/lib/torch/utils/checkpoint.py", Func: "forward", Source: "input = functions[j](input)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Function}, 2},
		{"one's own that is not asked to", []Frame{{Func: "forward",
			Source: "return checkpoint(self._forward, (x,), self.parameters(), self.use_checkpoint)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{}, 2},
		{"one's own whose arguments another line has", []Frame{
			{Func: "forward", Source: "h = checkpoint(f, (x,), self.parameters(), True)"},
			{Func: "forward", Source: "return checkpoint("}, {Func: "forward", Source: "return self.f(x)"}}, Wrap{}, 3},
		{"one's own that is asked to", []Frame{
			{Func: "forward", Source: "return checkpoint(self._forward, (x,), self.parameters(), True)"},
			{File: "nn.py", Func: "forward", Source: "output_tensors = ctx.run_function(*ctx.input_tensors)"},
			{Func: "forward", Source: "return self.f(x)"}}, Wrap{1, Checkpoint}, 3},
		{"another word", []Frame{{Func: "forward", Source: "x = load_checkpoint(self.block, x)"}}, Wrap{}, 1},
		{"a function of autograd", []Frame{{Func: "forward", Source: "return self.act(x)"},
			{Func: "forward", Source: "return SwishFunction.apply(x)"},
			{Func: "forward", Source: "result = i * torch.sigmoid(i)"}}, Wrap{2, Function}, 2},
		{"its argument", []Frame{{Func: "forward", Source: "return SwishFunction.apply(x + 1)"}}, Wrap{}, 1},
		{"one within a checkpoint", []Frame{{Func: "forward", Source: block},
			{Func: "forward", Source: "return SwishFunction.apply(x)"}, {Func: "forward", Source: "result = i * s"}},
			Wrap{1, Checkpoint}, 2},
		{"no_grad", []Frame{{File: "<eval_with_key>.1", Func: "forward", Source: "linear = linear(x, p_b_weight)"}},
			Wrap{1, NoGrad}, 0},
		{"autocast", []Frame{{File: "<eval_with_key>.1", Func: "forward", Source: "linear = linear(to, arg2_1)"}},
			Wrap{}, 0},
	} {
		for i := range c.frames {
			c.frames[i].Up = int32(i)
		}
		s, last := New(c.frames), len(c.frames)
		if got := s.Wrapped[last-1]; got != c.want || s.Modules(int32(last)) != c.level {
			t.Errorf("%s: %v in %d modules, want %v in %d", c.name, got, s.Modules(int32(last)), c.want, c.level)
		}
	}
}
