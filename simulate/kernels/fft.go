package kernels

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// cuFFT's work areas follow from which of a plan's transforms run as one kernel, in shared memory. The rules were found
// by 20,558 plans (testdata/fft_plans.csv.gz); which lengths have such a kernel is cuFFT's own choice, so these are
// lists. cuFFT itself answers nothing without a GPU.

// An fftKind is which side of a transform is real.
type fftKind uint8

const (
	complexToComplex fftKind = iota
	realToComplex
	complexToReal
)

// An fftPlan is what cufftXtMakePlanMany is asked for.
type fftPlan struct {
	kind    fftKind
	lengths []int64 // of the signal, the innermost last; 1 to 3
	batch   int64
	elem    int64 // bytes of a complex number: 4, 8 or 16
	strided bool  // the numbers of an input's innermost dimension lie apart
}

const (
	wholeKernels = 2048 // the lengths up to this were all measured
	sharedMemory = 8192 // complex numbers, which one kernel holds whatever the factors up to 7
	allStrided   = 300  // the lengths up to this were measured with numbers that lie apart
	fftAlignment = 1024 // of one of several parts of a work area
)

// kernelLengths are the lengths with a kernel of their own, or those without.
type kernelLengths func() map[int64]bool

var (
	// realKernels have one that needs no complex transform.
	realKernels = lengths(`2-33 35-37 40-45 47-50 53-56 59-61 63-64 66-68 70-73 76-77 79-81 83-84 88-90 92 96-97
		99-101 103-105 107-110 112-113 120-121 125-128 132 135-136 140 144 150 152 156 160 162 165 168-169 175-176 180
		184 189 192 198 200 210 216 220 224-225 231-232 240 243 248 250 252 256 260 264 270 272 275 280 288-289 297 300
		304 308 315 320 324 330 336 343 350 352 360-361 364 368 378 380 384-385 392 396 400 405 416 420 432 440-441 448
		450 456 462 464 468 480 486 490 495-496 504 512 528-529 539-540 550 560 567 576 588 594 600 616 625 630 640 648
		660 672 693 704 720 729 750 756 768 770 784 792 800 810 840-841 864 875 880 891 896 924 945 960-961 972 990
		1000 1008 1024 1080 1296 1331 1728 1920 2048 3072 4096 8192 16384`)
	onlyForward = lengths(`92 232 248`) // of these, that have none from complex to real

	// primesTo31 have none though no prime factor is above 31, primesFrom37 have one though one is.
	primesTo31   = lengths(`748 759 782 899 957 1054 1276 1666`)
	primesFrom37 = lengths(`296 328 344 376 388 404 412 428 436 444 452 492 508 555 740 777 888 962 999 1110 1204 1230
		1312 1332 1353 1369 1406 1419 1443 1476 1480 1505 1551 1554 1558 1590-1591 1599 1628 1634 1640 1645 1647 1665
		1677 1681 1702 1720 1722 1770 1776 1804 1806 1845 1849-1850 1886-1887 1892 1924 1935 1968 1974 1978 1998 2035
		2214 2226 2365 2408 2583 2664 2756 3774 3995`)

	// longKernels are those beyond sharedMemory with factors up to 7 that were seen to have one.
	longKernels = lengths(`8232 8400 8575 8640 8750 8820 8960 9072 9216 9450 9600 9800 10000 10080 10125 10240 10290
		10500 10584 10752 10976 11025 11200 11250 11340 11520 11664 11907 12096 12150 12250 12288 12348 12544 12600
		12800 13230 13440 13608 13720 13824 14000 14112 14175 14400 14580 14700 15000 15120 15360 15435 15552 15750
		16128 16200 16384 17280 18144 18225 18432 19200 19440 20250 20480 20736 21168 21952 22500 24000 24300 24576
		25088 25600 27000 28800`)

	// notStrided have none for numbers that lie apart, as those of all dimensions but the innermost do.
	notStrided = lengths(`34 38-39 46 51-52 57-58 62 65 69 75 85 87 93 95 98 115-116 119 124 145 147 154-155 161 174
		186-187 203 207 217 238 242 245 261 266 279 286 290 294 338 363 434 507 578 651 722 847 1014 1053 1080 1083
		1372 4290 4760 4805`)
)

// lengths reads numbers and ranges of them.
func lengths(list string) kernelLengths {
	return sync.OnceValue(func() map[int64]bool {
		set := map[int64]bool{}
		for _, field := range strings.Fields(list) {
			first, last, isRange := strings.Cut(field, "-")
			n, _ := strconv.ParseInt(first, 10, 64)
			for end := n; n <= end; n++ {
				if isRange {
					end, _ = strconv.ParseInt(last, 10, 64)
				}
				set[n] = true
			}
		}
		return set
	})
}

// workspace returns the bytes that a plan asks for, or at worst: where a length's kernels were not measured, none is
// taken for one kernel then.
func (p *fftPlan) workspace(worst bool) int64 {
	n := p.lengths[len(p.lengths)-1]
	rows := saturate(p.lengths[:len(p.lengths)-1]...)
	outer := true // all other dimensions run as one kernel each
	for _, m := range p.lengths[:len(p.lengths)-1] {
		outer = outer && p.oneKernel(m, worst) && p.strides(m, worst)
	}
	bytes := int64(0)
	switch {
	case p.kind == complexToComplex:
		bytes = p.complexes(n, saturate(rows, p.batch), outer, worst)
	case n%2 == 0:
		bytes = p.evenReals(n, rows, outer, worst)
	default:
		bytes = p.oddReals(n, rows, outer, worst)
	}
	for _, m := range p.lengths[:len(p.lengths)-1] {
		if p.isBluestein(m) { // not measured: what it takes alone, and in the worst case what the guide says
			whole := saturate(rows, n, p.batch, p.elem)
			bytes = max(bytes, p.bluestein(m, whole/p.elem/m))
			if worst {
				bytes = max(bytes, saturate(8, whole))
			}
		}
	}
	return bytes
}

// complexes is a transform of rows of n complex numbers: of several kernels, which go by way of a copy.
func (p *fftPlan) complexes(n, rows int64, outer, worst bool) int64 {
	switch one := p.oneKernel(n, worst); {
	case p.isBluestein(n):
		return p.bluestein(n, rows)
	case one && outer && (!p.strided || p.strides(n, worst)):
		return 0
	}
	return saturate(n, rows, p.elem)
}

// evenReals is a transform of n/2 complex numbers, and a kernel that takes them for reals.
func (p *fftPlan) evenReals(n, rows int64, outer, worst bool) int64 {
	batch := saturate(rows, p.batch)
	half, whole := saturate(n/2, batch, p.elem), saturate(n/2+1, batch, p.elem)
	switch {
	case p.isBluestein(n / 2):
		return p.bluestein(n/2, batch) + half
	case p.isBluestein(n):
		return padTo(half, fftAlignment) + half
	case !outer:
		return whole
	case p.oneReal(n, worst):
		return 0
	case p.oneKernel(n/2, worst):
		return half
	}
	return whole
}

// oddReals is a transform of n complex numbers, the reals of two signals each, from one copy to another.
func (p *fftPlan) oddReals(n, rows int64, outer, worst bool) int64 {
	pairs := saturate(rows, ceilDiv(p.batch, 2))
	copied, results := saturate(n, pairs, p.elem), saturate(n/2+1, rows, p.batch, p.elem)
	other := copied
	switch {
	case p.isBluestein(n):
		return p.bluestein(n, pairs) + copied
	case p.oneReal(n, worst) && outer:
		return 0
	case p.oneReal(n, worst):
		return results
	case !p.oneKernel(n, worst):
		other = saturate(n+1, pairs, p.elem)
	case !outer && p.kind == complexToReal:
		other = max(copied, results)
	}
	return padTo(other, fftAlignment) + copied
}

// isBluestein reports that a length is transformed by a convolution that no kernel holds.
func (p *fftPlan) isBluestein(n int64) bool { return largestPrime(n) > 127 && n > p.bluesteinHeld() }

// bluesteinHeld is the longest signal whose convolution a kernel holds: its numbers are 64 KiB.
func (p *fftPlan) bluesteinHeld() int64 { return sharedMemory * 4 / max(p.elem, 8) }

// bluestein is a convolution of rows of n: two copies of them, each filled up to a length of the factors 2, 3 and 5,
// and of reals by one more.
func (p *fftPlan) bluestein(n, rows int64) int64 {
	filled := max(nextSmooth(2*n-1), sharedMemory)
	if p.kind != complexToComplex {
		filled++
	}
	return 2 * padTo(saturate(filled, rows, p.elem), fftAlignment)
}

// nextSmooth returns the first number that is not below n and has no prime factor above 5.
func nextSmooth(n int64) int64 {
	best := int64(math.MaxInt64)
	for fives := int64(1); fives < 5*n; fives *= 5 {
		for odd := fives; odd < 3*n; odd *= 3 {
			best = min(best, odd<<bits.Len64(uint64(ceilDiv(n, odd)-1)))
		}
	}
	return best
}

// oneKernel reports whether signals of n complex numbers are transformed by one kernel.
func (p *fftPlan) oneKernel(n int64, worst bool) bool {
	prime, double := largestPrime(n), p.elem > 8
	switch {
	case prime <= 7 && n <= sharedMemory:
		return true
	case prime <= 7 && n == 2*sharedMemory:
		return p.elem >= 8
	case prime <= 7:
		return longKernels()[n] && !(double && worst)
	case prime > 127: // Bluestein's algorithm
		return n <= p.bluesteinHeld()
	case prime > 31 && n == prime:
		return true
	case prime > 31:
		return primesFrom37()[n] && !(double && worst)
	case n > wholeKernels:
		return n <= sharedMemory && !worst
	}
	return !primesTo31()[n] && !(double && worst)
}

// oneReal reports whether real signals of n are transformed by one kernel.
func (p *fftPlan) oneReal(n int64, worst bool) bool {
	prime := largestPrime(n)
	switch {
	case n == 1:
		return true
	case p.elem < 8:
		return n <= sharedMemory
	case p.strided && worst, p.elem > 8 && (n > wholeKernels && n != 4096 || prime > 7 && worst):
		return false
	}
	return realKernels()[n] && !(p.kind == complexToReal && onlyForward()[n])
}

// strides reports whether that kernel takes numbers that lie apart.
func (p *fftPlan) strides(n int64, worst bool) bool {
	return !notStrided()[n] && !(worst && n > allStrided)
}

// largestPrime returns the largest prime factor up to 127, the product of the others if there are any, and 1 of 1.
func largestPrime(n int64) int64 {
	largest := int64(1)
	for f := int64(2); f <= 127; f++ {
		for n%f == 0 && n > 1 {
			largest, n = f, n/f
		}
	}
	return max(largest, n)
}
