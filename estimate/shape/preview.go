package shape

import "fmt"

var trainingFamily = family{"ai.onnx.preview.training", []op{
	{"Gradient", 1, gradient, nil},
	{"Adagrad", 1, oneState, nil},  // squared gradients
	{"Momentum", 1, oneState, nil}, // momenta
	{"Adam", 1, twoStates, nil},    // both averages
}}

// gradient: the inputs are those that attribute xs names, then those of zs; output
// i is the derivative by xs[i] and has its type.
func gradient(c *call) error {
	n := c.attrLen("xs")
	if n == 0 {
		return fmt.Errorf("attribute xs is missing")
	}
	if n > len(c.node.In) {
		return fmt.Errorf("attribute xs names %d inputs of %d", n, len(c.node.In))
	}
	for i := range n {
		c.set(i, c.in(i))
	}
	return nil
}

func oneState(c *call) error { return optimizer(c, 1) }

func twoStates(c *call) error { return optimizer(c, 2) }

// optimizer: learning rate and step count, then n weights, n gradients and n tensors of each
// state. The outputs are the new weights, then the new states.
func optimizer(c *call, states int) error {
	rest := len(c.node.In) - 2
	if rest < 0 || rest%(2+states) != 0 {
		return fmt.Errorf("%d inputs, wanted 2 and a multiple of %d", len(c.node.In), 2+states)
	}
	n := rest / (2 + states)
	for i := range n {
		c.set(i, c.in(2+i))
		for s := range states {
			c.set((1+s)*n+i, c.in(2+(2+s)*n+i))
		}
	}
	return nil
}
