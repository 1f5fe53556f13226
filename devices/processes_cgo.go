//go:build linux && cgo

package devices

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// The two layouts of nvmlProcessInfo_t: that of the first version, and that of the second and third.
typedef struct { unsigned pid; unsigned long long bytes; } info1;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gi, ci; } info2;

static void *library(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_NOLOAD); }

// list calls the function of that name once; -1 when there is none.
static int list(void *lib, const char *name, uintptr_t device, unsigned *n, void *to) {
	int (*f)(void *, unsigned *, void *) = dlsym(lib, name);
	return f ? f((void *)device, n, to) : -1;
}
*/
import "C"

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxProcesses is far more than a GPU has: go-nvml asks a driver that always wants more room until memory is gone, so
// the lists are asked for here.
const maxProcesses = 4096

// notAvailable is NVML_VALUE_NOT_AVAILABLE as a process's memory.
const notAvailable = ^uint64(0)

// hook returns the loaded library for calls beside go-nvml's.
func hook(place string) unsafe.Pointer {
	path := C.CString(place)
	defer C.free(unsafe.Pointer(path))
	return C.library(path)
}

// listProcesses asks for one of the driver's lists, by the newest of the function's names that it has.
func (l *realNVML) listProcesses(names []string, dev nvml.Device, kind string) ([]Process, error) {
	// the struct that nvml.h wraps a handle in; no pointer for Go to look at
	device := C.uintptr_t(reflect.ValueOf(dev).Field(0).Pointer())
	for _, name := range names {
		n := C.uint(maxProcesses)
		old := !strings.HasSuffix(name, "_v2") && !strings.HasSuffix(name, "_v3")
		buf := make([]C.info2, maxProcesses) // large enough for both layouts
		symbol := C.CString(name)
		code := C.list(l.hook, symbol, device, &n, unsafe.Pointer(&buf[0]))
		C.free(unsafe.Pointer(symbol))
		switch {
		case code == -1:
			continue
		case code != 0:
			return nil, Code(code)
		case n > maxProcesses:
			return nil, codeTooSmall
		}
		all := make([]Process, 0, n)
		for i := range int(n) {
			pid, bytes := buf[i].pid, buf[i].bytes
			if old {
				v := unsafe.Slice((*C.info1)(unsafe.Pointer(&buf[0])), maxProcesses)[i]
				pid, bytes = v.pid, v.bytes
			}
			all = append(all, Process{PID: int(pid), Kind: kind, Bytes: uint64(bytes), Known: uint64(bytes) != notAvailable})
		}
		return all, nil
	}
	return nil, codeNoFunction
}

// lists are the driver's lists of processes, each with its function's names.
var lists = []struct {
	kind  string
	names []string
}{
	{"compute", []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
		"nvmlDeviceGetComputeRunningProcesses"}},
	{"mps", []string{"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
		"nvmlDeviceGetMPSComputeRunningProcesses"}},
	{"graphics", []string{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
		"nvmlDeviceGetGraphicsRunningProcesses"}},
}

// processes merges the driver's three lists. A process that both draws and computes is one, of the
// first kind that names it, with the memory of whichever list knew it.
func (g *realGPU) processes() ([]Process, error) {
	if g.lib.known == nil || g.lib.hook == nil {
		return nil, codeUninitialized
	}
	var all []Process
	for i, list := range lists {
		ps, err := g.lib.listProcesses(list.names, g.dev, list.kind)
		if err != nil && i == 0 {
			return nil, err // without the processes that compute there is no list
		}
		for _, p := range ps {
			all = addProcess(all, p)
		}
	}
	return all, nil
}

func addProcess(all []Process, p Process) []Process {
	if !p.Known {
		p.Bytes = 0
	}
	for i := range all {
		if all[i].PID == p.PID {
			all[i].Known = all[i].Known || p.Known
			all[i].Bytes = max(all[i].Bytes, p.Bytes)
			return all
		}
	}
	return append(all, p)
}
