package oom

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// unsaid is a size that a text does not say.
const unsaid = -1

// A Paste is what people paste of memory that ran out: PyTorch's message, torch.cuda.memory_summary(), memory_stats(),
// nvidia-smi's table, or several of them. Sizes are bytes, or unsaid.
type Paste struct {
	Kinds     []string // what was found in the text
	GPU       string   // its number, as the message has it
	Tried     int64    // the request that failed
	Total     int64    // of the device
	Free      int64    // of the device
	Process   int64    // of this process, what is not PyTorch's too
	Allocated int64
	Reserved  int64   // PyTorch's, what is allocated too
	Private   int64   // of the allocated: in private pools of CUDA graphs
	Allowed   int64   // by set_per_process_memory_fraction
	Peak      int64   // most that was allocated
	Retries   int64   // of the allocator
	Bare      bool    // CUDA itself failed, outside PyTorch's allocator
	Old       bool    // a message from before PyTorch 2.1
	Others    []int64 // by other processes
}

// re compiles a pattern when it is first asked for.
func re(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

const amount = `(\d{1,20}(?:\.\d{1,9})? ?(?:[KMGTP]i?B|bytes|B))`

// PyTorch's message, c10/cuda/CUDACachingAllocator.cpp. Until 1.3 it has "cached", which is what is reserved and not
// allocated; until 2.0 "reserved in total by PyTorch"; "total capacty" until 2.1.
var (
	triedIn   = re(`(?:CUDA|HIP|XPU|MPS backend) out of memory[^T]{0,200}Tried to allocate ` + amount)
	gpuIn     = re(`GPU (\d{1,6})(?:;| has)`)
	totalIn   = re(amount + ` total capacity|total capaci?ty of ` + amount)
	freeIn    = re(amount + ` free[;)]|of which ` + amount + ` is free`)
	cachedIn  = re(amount + ` cached\)`)
	heldIn    = re(amount + ` already allocated|` + amount + ` is allocated by PyTorch`)
	inTotalIn = re(amount + ` reserved in total`)
	spareIn   = re(amount + ` is reserved by PyTorch but unallocated`)
	privateIn = re(amount + ` allocated in private pools`)
	allowedIn = re(amount + ` allowed;`)
	processIn = re(`this process has ` + amount + ` memory in use`)
	othersIn  = re(`Process \d{1,12} has ` + amount + ` memory in use`)
	bareIn    = re(`CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation`)
)

// memory_summary() and memory_stats(), torch/cuda/memory.py.
var (
	summaryIn = re(`PyTorch CUDA memory summary`)
	rowIn     = re(`\| *(Allocated memory|GPU reserved memory) *\| *` + amount + ` *\| *` + amount)
	retriesIn = re(`cudaMalloc retries: (\d{1,18})`)
	statsIn   = re(`['"](allocated_bytes\.all\.current|allocated_bytes\.all\.peak|reserved_bytes\.all\.current|num_alloc_retries)['"] ?[:,] ?(\d{1,18})`)
	nestedIn  = re(`['"](allocated_bytes|reserved_bytes)['"] ?: ?\{ ?['"]all['"] ?: ?\{[^}]{0,200}['"]current['"] ?: ?(\d{1,18})`)
)

// nvidia-smi's table.
var (
	smiIn     = re(`\| *[^|]*\| *(\d{1,9})MiB */ *(\d{1,9})MiB *\|`)
	smiProcIn = re(`\| +(\d{1,4}) +(?:\S+ +\S+ +)?\d{1,12} +[CG]\+?[CG]? +.{1,200}? +(\d{1,9})MiB *\|`)
)

// ReadPaste reads a pasted text. Of several messages the last one counts; it is false where there is nothing to read.
func ReadPaste(text string) (*Paste, bool) {
	p := &Paste{Tried: unsaid, Total: unsaid, Free: unsaid, Process: unsaid, Allocated: unsaid, Reserved: unsaid,
		Private: unsaid, Allowed: unsaid, Peak: unsaid, Retries: unsaid}
	p.message(strings.Join(strings.Fields(text), " "))
	p.statistics(text)
	p.table(text)
	if len(p.Kinds) == 0 && bareIn().MatchString(text) {
		p.Bare, p.Kinds = true, append(p.Kinds, "an error of CUDA's own")
	}
	return p, len(p.Kinds) > 0
}

// message reads PyTorch's message in a text without line breaks.
func (p *Paste) message(text string) {
	all := triedIn().FindAllStringSubmatchIndex(text, -1)
	if len(all) == 0 {
		return
	}
	const longest = 4000
	at := all[len(all)-1]
	text = text[at[0]:min(len(text), at[0]+longest)]
	m := triedIn().FindStringSubmatch(text)
	p.Kinds = append(p.Kinds, "PyTorch's message")
	p.Tried = bytesOf(m[1])
	if g := gpuIn().FindStringSubmatch(text); g != nil {
		p.GPU = g[1]
	}
	p.Total, p.Free = sizeIn(totalIn(), text), sizeIn(freeIn(), text)
	p.Allocated, p.Private, p.Allowed = sizeIn(heldIn(), text), sizeIn(privateIn(), text), sizeIn(allowedIn(), text)
	p.Process = sizeIn(processIn(), text)
	p.Reserved = sizeIn(inTotalIn(), text)
	p.Old = !strings.Contains(text, "is allocated by PyTorch")
	for _, spare := range []int64{sizeIn(spareIn(), text), sizeIn(cachedIn(), text)} {
		if spare >= 0 && p.Allocated >= 0 {
			p.Reserved = p.Allocated + spare
		}
	}
	for _, o := range othersIn().FindAllStringSubmatch(text, -1) {
		p.Others = append(p.Others, bytesOf(o[1]))
	}
	p.findSelf()
}

// beyondPyTorch is more than CUDA's context, libraries and NCCL take of a process.
const beyondPyTorch = 2 << 30

// findSelf takes the process that has a little more than PyTorch reserved for this one, where the text does not say
// which it is: in a container PyTorch does not know its own number.
func (p *Paste) findSelf() {
	if p.Process >= 0 || p.Reserved < 0 {
		return
	}
	for i, o := range p.Others {
		if beyond := o - p.Reserved; beyond >= 0 && beyond < beyondPyTorch {
			p.Process, p.Others = o, slices.Delete(p.Others, i, i+1)
			return
		}
	}
}

// statistics reads memory_summary() and memory_stats().
func (p *Paste) statistics(text string) {
	found := map[string]int64{}
	for _, m := range rowIn().FindAllStringSubmatch(text, -1) {
		name := map[string]string{"Allocated memory": "allocated_bytes", "GPU reserved memory": "reserved_bytes"}[m[1]]
		found[name+".all.current"], found[name+".all.peak"] = bytesOf(m[2]), bytesOf(m[3])
	}
	if len(found) > 0 || summaryIn().MatchString(text) {
		p.Kinds = append(p.Kinds, "torch.cuda.memory_summary()")
	}
	if m := retriesIn().FindStringSubmatch(text); m != nil {
		found["num_alloc_retries"] = number(m[1])
	}
	stats := false
	for _, m := range statsIn().FindAllStringSubmatch(text, -1) {
		found[m[1]], stats = number(m[2]), true
	}
	for _, m := range nestedIn().FindAllStringSubmatch(text, -1) {
		found[m[1]+".all.current"], stats = number(m[2]), true
	}
	if stats {
		p.Kinds = append(p.Kinds, "torch.cuda.memory_stats()")
	}
	for name, of := range map[string]*int64{"allocated_bytes.all.current": &p.Allocated,
		"reserved_bytes.all.current": &p.Reserved,
		"allocated_bytes.all.peak":   &p.Peak, "num_alloc_retries": &p.Retries} {
		if n, ok := found[name]; ok && *of < 0 { // a message is nearer to the failure
			*of = n
		}
	}
}

// table reads nvidia-smi's: the GPU that the message is about, else the fullest.
func (p *Paste) table(text string) {
	rows := smiIn().FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		return
	}
	p.Kinds = append(p.Kinds, "nvidia-smi's table")
	at := 0
	for i, r := range rows {
		if number(r[1]) > number(rows[at][1]) {
			at = i
		}
	}
	if n, err := strconv.Atoi(p.GPU); err == nil && n < len(rows) {
		at = n
	}
	used, total := number(rows[at][1])<<20, number(rows[at][2])<<20
	if p.Total < 0 {
		p.Total, p.Free = total, max(total-used, 0)
	}
	p.GPU = strconv.Itoa(at)
	if len(p.Others) > 0 {
		return
	}
	defer p.findSelf()
	for _, m := range smiProcIn().FindAllStringSubmatch(text, -1) {
		if m[1] == p.GPU {
			p.Others = append(p.Others, number(m[2])<<20)
		}
	}
}

// sizeIn is the first size that a pattern finds in a text.
func sizeIn(r *regexp.Regexp, text string) int64 {
	m := r.FindStringSubmatch(text)
	for _, s := range m[min(1, len(m)):] {
		if s != "" {
			return bytesOf(s)
		}
	}
	return unsaid
}

// bytesOf reads a size as PyTorch writes it: "1.50 GiB", "512 bytes".
func bytesOf(s string) int64 {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0
	}
	if power := strings.IndexByte("BKMGTP", strings.TrimSpace(s[end:])[0]); power > 0 {
		n *= math.Pow(1024, float64(power))
	}
	return int64(min(n, 1<<60))
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return min(n, 1<<50) // so that sums stay within 64 bits
}
