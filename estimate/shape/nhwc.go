package shape

import "fmt"

// nhwcFamily has what ONNX Runtime leaves in a model that is saved once it is laid out for a processor that wants
// channels last: ONNX's operators with input 0 and output 0 turned, [N, spatial..., C], and all else as it was.
// Versions are ONNX's. Source: ONNX Runtime, internal_nhwc_onnx_schemas.cc, whose Resize has its sizes turned as well
// and so is ONNX's own.
var nhwcFamily = family{"com.ms.internal.nhwc", []op{
	{"Conv", 11, withChannelsLast(conv), nil},
	{"ConvTranspose", 1, withChannelsLast(convTranspose), nil},
	{"QLinearConv", 10, withChannelsLast(qlinearConv), nil},
	{"QLinearConvTranspose", 1, withChannelsLast(qlinearConvTranspose), nil},
	{"MaxPool", 11, withChannelsLast(pool), nil},
	{"AveragePool", 11, withChannelsLast(pool), nil},
	{"LpPool", 11, withChannelsLast(pool), nil},
	{"QLinearAveragePool", 1, withChannelsLast(qlinearPool), nil},
	{"GlobalAveragePool", 1, withChannelsLast(globalPool), nil},
	{"GlobalMaxPool", 1, withChannelsLast(globalPool), nil},
	{"GlobalLpPool", 2, withChannelsLast(globalPool), nil},
	{"MaxUnpool", 9, withChannelsLast(maxUnpool), nil},
	{"BatchNormalization", 9, withChannelsLast(batchNorm), nil},
	{"BatchNormalization", 14, withChannelsLast(batchNorm14), nil},
	{"InstanceNormalization", 6, withChannelsLast(channelNorm), nil},
	{"LRN", 1, withChannelsLast(lrn), nil},
	{"DepthToSpace", 11, withChannelsLast(depthToSpace), nil},
	{"SpaceToDepth", 1, withChannelsLast(spaceToDepth), nil},
	{"GridSample", 16, withChannelsLast(gridSample), nil},
	{"Resize", 11, resize, nil},
}}

// withChannelsLast is the rule of an operator whose input 0 and output 0 have their channels last, made of its rule for
// channels first.
func withChannelsLast(rule func(*call) error) func(*call) error {
	return func(c *call) error {
		if len(c.ins) == 0 {
			return rule(c)
		}
		in := c.ins[0]
		if s := in.Shape; s.Ranked && len(s.Dims) < 3 {
			return fmt.Errorf("input 0 has %d dimensions, wanted at least 3", len(s.Dims))
		}
		c.ins[0].Shape = channelsFirst(in.Shape)
		err := rule(c)
		c.ins[0] = in
		if len(c.outs) > 0 {
			c.outs[0].Shape = channelsLast(c.outs[0].Shape)
		}
		return err
	}
}
