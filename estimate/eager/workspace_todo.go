package eager

import "github.com/memestimate/memestimate/onnxload"

type convDirection uint8

const (
	convForward convDirection = iota
	convBackwardInput
	convBackwardWeight
)

type convShape struct {
	x, w, y, groups int64
	wshape, xshape  []int64
}

func newConvShape(c *Call, x, w *tensor, shape []int64, last bool) convShape {
	return convShape{x: x.bytes(), w: w.bytes(), y: bytesOf(numel(shape), x.dtype), groups: c.Args.Groups, wshape: w.shape, xshape: x.shape}
}

func (r *run) convWorkspace(k convShape, d convDirection) {
	if k.groups > 1 && k.groups == k.xshape[1] {
		return
	}
	r.scratch(k.x+k.y+k.w, 9)
}

func (r *run) channelsLastNormScratch(x *tensor, train, backward bool) {}

func (r *run) layerNormScratch(rows, n int64, d onnxload.DType, stats int) {}

func (r *run) embeddingGrad(d onnxload.DType, shape []int64, ids int64) *tensor {
	return r.empty(d, shape...)
}

func (r *run) indexPutScratch(n int64) {}
