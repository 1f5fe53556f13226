package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// nchwcFamily has what ONNX Runtime's CPU optimizer leaves in a model that is saved at its highest level:
// convolutions on channels in blocks, [N, C rounded up, spatial...]. Source: ONNX Runtime, nchwc_schema_defs.cc.
var nchwcFamily = family{"com.microsoft.nchwc", []op{
	{"Conv", 1, conv, nil},
	{"MaxPool", 1, pool, nil},
	{"AveragePool", 1, pool, nil},
	{"GlobalMaxPool", 1, globalPool, nil},
	{"GlobalAveragePool", 1, globalPool, nil},
	{"ReorderInput", 1, reorderInput, nil},
	{"ReorderOutput", 1, reorderOutput, nil},
	{"Upsample", 1, nchwcUpsample, nil},
}}

// trtFamily has plugins of TensorRT that exporters of detectors write as nodes. Source: the README of each
// plugin in TensorRT's repository.
var trtFamily = family{"TRT", []op{
	{"EfficientNMS_TRT", 1, efficientNMS, nil},
	{"BatchedNMS_TRT", 1, batchedNMS, nil},
	{"BatchedNMSDynamic_TRT", 1, batchedNMS, nil},
}}

// nchwcBlock is the largest block of channels, that of AVX-512; other processors have 8 or 4.
const nchwcBlock = 16

// reorderInput brings channels into blocks. The last block is filled up to the processor's size, so unless they fill
// the largest block the number is known only by its limit.
func reorderInput(c *call) error {
	in, ok, err := c.likeInput(2)
	if err != nil || !ok {
		return err
	}
	s := Of(in...)
	if c.attrInt("channels_last", 0) != 0 {
		s = channelsFirst(s)
	}
	channels := s.Dims[1]
	if n, ok := channels.Int(); !ok || n%nchwcBlock != 0 {
		channels = c.bounded(Mul(CeilDiv(channels, N(nchwcBlock)), N(nchwcBlock)))
	}
	c.out(0, c.elem(0), s.with(1, channels))
	return nil
}

// reorderOutput brings attribute channels of them back.
func reorderOutput(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	channels, err := c.positiveInt("channels", 0)
	if err != nil {
		return err
	}
	in, ok, err := c.ranked(0, 2, anyRank)
	if err != nil || !ok {
		return err
	}
	s := Of(in...).with(1, N(channels))
	if c.attrInt("channels_last", 0) != 0 {
		s = channelsLast(s)
	}
	c.out(0, c.elem(0), s)
	return nil
}

// nchwcUpsample multiplies every dimension by its number in attribute scales.
func nchwcUpsample(c *call) error {
	in, ok, err := c.likeInput(2)
	if err != nil || !ok {
		return err
	}
	scales, ok := c.attrInts("scales")
	if !ok {
		c.out(0, c.elem(0), Of(c.unknowns(len(in))...))
		return nil
	}
	if len(scales) != len(in) {
		return fmt.Errorf("attribute scales has %d numbers, wanted %d", len(scales), len(in))
	}
	out := make([]Dim, len(in))
	for i, n := range scales {
		if n <= 0 {
			return fmt.Errorf("attribute scales has %d, wanted at least 1", n)
		}
		out[i] = Mul(in[i], N(n))
	}
	c.out(0, c.elem(0), Of(out...))
	return nil
}

// efficientNMS: boxes and scores [B, boxes, classes] -> how many were found, boxes, scores and classes, each as many
// as attribute max_output_boxes whatever was found.
func efficientNMS(c *call) error { return detections(c, "max_output_boxes", onnxload.Int32) }

// batchedNMS is its predecessor, whose classes are numbers of float32.
func batchedNMS(c *call) error { return detections(c, "keepTopK", onnxload.Float32) }

func detections(c *call, attr string, classes onnxload.DType) error {
	if err := c.need(2); err != nil {
		return err
	}
	count, err := c.needInt(attr)
	if err != nil {
		return err
	}
	kept, err := checkDim(N(count), "attribute "+attr)
	if err != nil {
		return err
	}
	boxes, ok, err := c.ranked(0, 3, 4)
	if err != nil {
		return err
	}
	scores, okScores, err := c.ranked(1, 3, 4)
	if err != nil {
		return err
	}
	batch := c.unknown()
	if ok {
		batch = boxes[0]
	}
	if okScores {
		if batch, err = agree("the batch size", batch, scores[0]); err != nil {
			return err
		}
	}
	c.out(0, onnxload.Int32, Of(batch, N(1)))
	c.out(1, c.elem(0), Of(batch, kept, N(4)))
	c.out(2, c.elem(1), Of(batch, kept))
	c.out(3, classes, Of(batch, kept))
	return nil
}
