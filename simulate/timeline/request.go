package timeline

// A Request is what a Log knows of a block.
type Request struct {
	Bytes    int64
	Layer    int32
	Category Category
	Phase    Phase // Log.Alloc sets it
	Stream   uint8
}

// A known is what a Log knows of a block beside its Alloc, in eight bytes. Unlike an Entry it can still change.
type known struct {
	alloc int32  // index of its Alloc
	what  uint32 // the category in the lowest bits, above it the phase, and one more than the layer in the highest
}

const (
	categoryBits, phaseBits = 4, 4
	layerShift              = categoryBits + phaseBits

	// mostLayers is how many layers blocks can be in: what there is beyond has none. A graph has five million nodes.
	mostLayers = 1<<(32-layerShift) - 1
)

func (k *known) category() Category { return Category(k.what & (1<<categoryBits - 1)) }

func (k *known) phase() Phase { return Phase(k.what >> categoryBits & (1<<phaseBits - 1)) }

func (k *known) layer() int32 { return int32(k.what>>layerShift) - 1 }

func (k *known) set(layer int32, p Phase, c Category) {
	if layer >= mostLayers {
		layer = NoLayer
	}
	k.what = uint32(layer+1)<<layerShift | uint32(p)<<categoryBits | uint32(c)
}

// SetCategory corrects what a block is for.
func (l *Log) SetCategory(block int32, c Category) {
	k := l.blocks.At(int(block))
	k.set(k.layer(), k.phase(), c)
}

// SetLayer corrects in which layer a block is made.
func (l *Log) SetLayer(block, layer int32) {
	k := l.blocks.At(int(block))
	k.set(layer, k.phase(), k.category())
}

// Of returns what is known of any block, those of repetitions included.
func (l *Log) Of(block int32) Request {
	k := l.blocks.At(int(l.First(block)))
	e := *l.entries.At(int(k.alloc))
	return Request{Bytes: e.Bytes(), Layer: k.layer(), Category: k.category(), Phase: k.phase(), Stream: e.Stream()}
}
