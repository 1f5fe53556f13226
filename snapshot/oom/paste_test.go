package oom

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Messages that people pasted into public issues, of PyTorch 1.0 to 2.9, and what they say.
func TestReadPaste(t *testing.T) {
	for name, c := range map[string]struct {
		text                                                 string
		tried, total, free, allocated, reserved, process, of int64 // in MiB, the last what others have
		cause, helps                                         string
	}{
		"1.1": {"RuntimeError: CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB already\n" +
			"allocated; 576.00 KiB free; 30.96 MiB cached)", 1, 11438, 0, 11161, 11192, -1, 0, "the program's own tensors", "perhaps"},
		"1.3, fragments": {"CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 11.17 GiB total capacity; 6.90 GiB already " +
			"allocated; 576.00 KiB free; 3.96 GiB cached)", 1024, 11438, 0, 7065, 11120, -1, 0, "fragments", "perhaps"},
		"1.10": {"CUDA out of memory. Tried to allocate 6.00 GiB (GPU 0; 10.00 GiB total capacity; 5.82 GiB already allocated; 1.58 GiB " +
			"free; 5.90 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
			6144, 10240, 1617, 5959, 6041, -1, 0, "the program's own tensors", "no"},
		"1.12 of Windows": {"CUDA out of memory. Tried to allocate 58.00 MiB (GPU 0; 6.00 GiB total capacity; 5.13 GiB already allocated; " +
			"0 bytes free; 5.23 GiB reserved in total by PyTorch)", 58, 6144, 0, 5253, 5355, -1, 0, "own tensors", "perhaps"},
		"2.1": {"CUDA out of memory. Tried to allocate 86.00 MiB. GPU 0 has a total capacty of 7.78 GiB of which 61.00 MiB is free. " +
			"Including non-PyTorch memory, this process has 7.39 GiB memory in use. Of the allocated memory 7.21 GiB is allocated by " +
			"PyTorch, and 5.22 MiB is reserved by PyTorch but unallocated.", 86, 7966, 61, 7383, 7388, 7567, 0, "own tensors", "no"},
		"2.4 in a container": {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 160.00 MiB. GPU 0 has a total capacity " +
			"of 14.75 GiB of which 73.06 MiB is free. Process 82243 has 14.67 GiB memory in use. Of the allocated memory 14.55 GiB is " +
			"allocated by PyTorch, and 23.38 MiB is reserved by PyTorch but unallocated.", 160, 15104, 73, 14899, 14922, 15022, 0,
			"own tensors", "no"},
		"2.6, others": {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 24.00 GiB of which 1.00 GiB is free. " +
			"Process 7 has 18.00 GiB memory in use. Process 9 has 1.20 GiB memory in use. Including non-PyTorch memory, this process " +
			"has 3.60 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and 20.00 MiB is reserved by " +
			"PyTorch but unallocated.", 2048, 24576, 1024, 3072, 3092, 3686, 19660, "other processes hold", "no"},
		"2.9, HIP and a limit": {"HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB " +
			"is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private " +
			"pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.", 2, 262123, 250521, 1017, 1072, -1, 0,
			"set_per_process_memory_fraction", "yes"},
		"larger than the device": {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 28.86 GiB. GPU 0 has a total capacity of " +
			"24.00 GiB of which 3.80 GiB is free. Of the allocated memory 18.56 GiB is allocated by PyTorch, and 395.50 MiB is reserved " +
			"by PyTorch but unallocated.", 29552, 24576, 3891, 19005, 19400, -1, 0, "one tensor of", "no"},
		"memory_summary": {"|                  PyTorch CUDA memory summary, device ID 0                 |\n" +
			"|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |\n" +
			"| Allocated memory      |    6144 MiB |    8000 MiB |   20000 MiB |   14000 MiB |\n" +
			"| GPU reserved memory   |    8192 MiB |    8192 MiB |    8192 MiB |      0 B    |\n",
			-1, -1, -1, 6144, 8192, -1, 0, "what PyTorch held", "perhaps"},
		"memory_stats": {"OrderedDict([('allocated_bytes.all.current', 1073741824), ('allocated_bytes.all.peak', 2147483648), " +
			"('reserved_bytes.all.current', 1610612736), ('num_alloc_retries', 2)])", -1, -1, -1, 1024, 1536, -1, 0, "PyTorch held", "perhaps"},
		"memory_stats as JSON": {`{"allocated_bytes.all.current": 1073741824, "reserved_bytes.all.current": 1610612736}`,
			-1, -1, -1, 1024, 1536, -1, 0, "PyTorch held", "perhaps"},
		"nvidia-smi": {"|   0  GeForce RTX 208...  Off  | 00000000:4B:00.0 Off |                  N/A |\n" +
			"| 29%   34C    P2    64W / 250W |   8559MiB / 10989MiB |      0%      Default |\n" +
			"|    0   N/A  N/A      1234      C   python \x1b]0;x\x07 a                    8000MiB |\n",
			-1, 10989, 2430, -1, -1, -1, 8000, "how the device's memory is held", "perhaps"},
	} {
		p, ok := ReadPaste(c.text)
		if !ok {
			t.Errorf("%s: not read", name)
			continue
		}
		for what, n := range map[string][2]int64{"tried": {p.Tried, c.tried}, "total": {p.Total, c.total}, "free": {p.Free, c.free},
			"allocated": {p.Allocated, c.allocated}, "reserved": {p.Reserved, c.reserved}, "process": {p.Process, c.process}} {
			if got := n[0]; (got < 0) != (n[1] < 0) || got >= 0 && (got+mib/2)/mib != n[1] && got/mib != n[1] {
				t.Errorf("%s: %s is %d MiB, want %d", name, what, got/mib, n[1])
			}
		}
		if got := p.others() / mib; got != c.of {
			t.Errorf("%s: others have %d MiB, want %d", name, got, c.of)
		}
		size := func(n int64) string { return fmt.Sprint(n/mib, " MiB") }
		if says := p.Says(size); !strings.Contains(says, c.cause) {
			t.Errorf("%s: %q, want %q", name, says, c.cause)
		}
		if all := p.Advise(size); len(all) == 0 || all[0].Helps != c.helps {
			t.Errorf("%s: %+v, want %s first", name, all, c.helps)
		}
		sum := int64(0)
		for _, h := range p.Held() {
			if h.Bytes <= 0 || strings.ContainsRune(h.Who, 0x1b) {
				t.Errorf("%s: %+v", name, h)
			}
			sum += h.Bytes
		}
		if p.Total > 0 && sum > p.Total+64*mib {
			t.Errorf("%s: %d MiB are held of %d", name, sum/mib, p.Total/mib)
		}
	}
	for _, text := range []string{"", "hello", "out of memory", "Tried to allocate", "| 1 |"} {
		if p, ok := ReadPaste(text); ok {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
	if p, ok := ReadPaste("RuntimeError: CUDA error: out of memory"); !ok || !p.Bare {
		t.Errorf("CUDA's own error is %+v, %t", p, ok)
	}
}

// Of several messages the last one counts, and what else is in the text adds to it.
func TestReadPasteOfSeveral(t *testing.T) {
	message := "CUDA out of memory. Tried to allocate %d.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; " +
		"1.00 MiB free; 7.00 GiB reserved in total by PyTorch)\n"
	p, _ := ReadPaste(fmt.Sprintf(message, 10) + fmt.Sprintf(message, 20) + "| cudaMalloc retries: 4 |")
	if p.Tried != 20*mib || p.Allocated != 6<<30 {
		t.Errorf("%+v", p)
	}
}

// A text is only text: pieces of messages in any order, with any numbers, make neither a panic nor a negative size, and
// take time that grows as the text does.
func TestHostilePaste(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"CUDA out of memory. ", "Tried to allocate ", "99999999999999999999.99 PiB", "0 bytes", "-1 GiB", "1e309 GiB", " free;",
		"(GPU 999999; ", " total capacity; ", " already allocated; ", " cached)", " reserved in total by PyTorch)", "Process 1 has ",
		" memory in use. ", "Of the allocated memory ", " is allocated by PyTorch, ", " allowed; ", "\x1b[31m", "|", "8MiB / 9MiB |", "\xff",
		"'allocated_bytes.all.current': ", "999999999999999999", " 0 N/A N/A 1 C x 5MiB |", "\n", "| Allocated memory | ", " of which ",
		"this process has ", " total capacity of ", " is free", "4.00 GiB"}
	size := func(n int64) string { return fmt.Sprint(n) }
	for range 4000 {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		p, _ := ReadPaste(b.String())
		for _, h := range p.Held() {
			if h.Bytes < 0 {
				t.Fatalf("%q: %+v", b.String(), h)
			}
		}
		p.Says(size)
		p.Advise(size)
	}
	begin := time.Now()
	ReadPaste(strings.Repeat("CUDA out of memory. Tried to allocate 1.00 GiB | 1MiB / 2MiB | ", 15_000))
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("1 MB takes %s", took)
	}
}
