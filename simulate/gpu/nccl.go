package gpu

import "math/bits"

// What NCCL 2.28 takes on the device: free memory before and after each step, by scripts/measure/communicators.py on two
// H200s of one host, for NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS by default and set, to 2 MiB (docs/training.md).
const (
	ncclOnce      = 168 << 20 // the first communicator of a process
	ncclRing      = 186 << 20 // kernels of the first collective
	ncclPairs     = 58 << 20  // kernels of the first send
	ncclBase      = 6 << 20   // each communicator, and as much for each of its channels
	ncclBaseAlone = 4 << 20   // one of a single rank
	ncclSide      = 2 << 20   // a channel's end that sends: one piece of memory of the driver
	ncclEager     = 5<<20 + 3<<16
	ncclBuffer    = 4 << 20 // NCCL_BUFFSIZE by default
	ringChannels  = 24      // of GPUs with 18 NVLinks
	aloneChannels = 64      // MAXCHANNELS
	hostChannels  = 4       // by the host's memory, where the buffers are too
)

// NCCLSettings are those of NCCL's environment that change what it takes.
type NCCLSettings struct {
	Buffer   int64 // NCCL_BUFFSIZE in bytes; -1 where it is not set
	Channels int64 // NCCL_MAX_NCHANNELS; -1 where it is not set
	Direct   bool  // GPUs write into each other's memory: not NCCL_P2P_DISABLE
}

// A Communicator is one of NCCL's, as one of its ranks has it.
type Communicator struct {
	Ranks    int
	Ring     bool // it ran a collective
	Sends    int  // to so many ranks of this host
	Receives int  // from so many ranks of this host
}

// Bytes returns what the communicators of a process take on its device. A channel's end that receives has a buffer for
// each of NCCL's protocols: NCCL_BUFFSIZE, and 5.2 MiB for LL and LL128 (ncclTransportP2pSetup).
func (s NCCLSettings) Bytes(of []Communicator) (sum int64) {
	if len(of) == 0 {
		return 0
	}
	const most = 1 << 50 // more than any computer has
	ring, alone := int64(ringChannels), int64(aloneChannels)
	if !s.Direct {
		ring = hostChannels
	}
	if s.Channels > 0 {
		ring, alone = min(ring, s.Channels), min(alone, s.Channels)
	}
	pair := int64(1) << bits.Len64(uint64(ring-1)) // a power of two: ncclTopoComputeP2pChannels
	buffer := s.Buffer
	if buffer < 0 {
		buffer = ncclBuffer
	}
	receive := (min(buffer, most) + ncclEager + ncclSide - 1) / ncclSide * ncclSide
	send := int64(ncclSide)
	if !s.Direct {
		receive, send = 0, 0
	}
	add := func(times, bytes int64) {
		if high, low := bits.Mul64(uint64(times), uint64(bytes)); high != 0 || low > most {
			sum = most
		} else {
			sum = min(sum+int64(low), most)
		}
	}
	add(1, ncclOnce)
	rings, pairs := false, false
	for _, c := range of {
		if c.Ranks < 2 {
			add(1, ncclBaseAlone+alone*ncclBase)
			continue
		}
		add(1, ncclBase+pair*ncclBase)
		if c.Ring {
			rings = true
			add(ring, send+receive)
		}
		pairs = pairs || c.Sends+c.Receives > 0
		add(int64(c.Sends), pair*send)
		add(int64(c.Receives)*pair, receive)
	}
	if rings {
		add(1, ncclRing)
	}
	if pairs {
		add(1, ncclPairs)
	}
	return sum
}
