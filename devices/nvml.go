package devices

import "fmt"

// library is what a Session needs of NVML. The real one is in nvml_cgo.go; tests script
// one that fails where they want. Errors are Codes wherever NVML gave one.
type library interface {
	driver() (string, error)
	count() (int, error)
	gpu(index int) (gpu, error)
	shutdown()
	restart() error // shuts down and begins anew, after the driver was away
}

// gpu is what a Session needs of one GPU or MIG instance.
type gpu interface {
	uuid() (string, error)
	name() (string, error)
	busID() (string, error)
	memory() (memory, error)
	processes() ([]Process, error)
	computeMode() (ComputeMode, error)
	migMode() (bool, error)
	instances() ([]gpu, error)      // of a GPU with MIG on
	ids() (gi int, ci int, _ error) // of an instance
	activity() Activity
}

// memory is nvmlMemory_v2_t; an old driver leaves reserved 0 and counts it as used.
type memory struct{ total, used, free, reserved uint64 }

// A Code is an error of NVML, numbered as nvmlReturn_t.
type Code int

// The codes that are told apart here.
const (
	codeUninitialized   Code = 1
	codeInvalidArgument Code = 2
	codeNotSupported    Code = 3
	codeNoPermission    Code = 4
	codeNotFound        Code = 6
	codeTooSmall        Code = 7
	codePower           Code = 8
	codeDriverNotLoaded Code = 9
	codeTimeout         Code = 10
	codeNoLibrary       Code = 12
	codeNoFunction      Code = 13
	codeLost            Code = 15
	codeResetRequired   Code = 16
	codeOperatingSystem Code = 17
	codeMismatch        Code = 18
	codeMemory          Code = 20
	codeStructVersion   Code = 25 // the driver does not know that version of a struct
	codeUnknown         Code = 999
)

// codeTexts says what each code means, and the cure where one is known. The wording is ours: asking
// the library for its text would be one more call that may be missing from it.
var codeTexts = []struct {
	code Code
	text string
	cure string
}{
	{codeUninitialized, "NVML is not initialized", ""},
	{codeInvalidArgument, "invalid argument", ""},
	{codeNotSupported, "not supported", ""},
	{codeNoPermission, "no permission to talk to the NVIDIA driver",
		"check the permissions of /dev/nvidia*, or in a container its device cgroup"},
	{codeNotFound, "not found", ""},
	{codeTooSmall, "the driver asks for ever more room", ""},
	{codePower, "the GPU lacks external power", "connect the GPU's power cables"},
	{codeDriverNotLoaded, "the NVIDIA driver is not loaded", "load it: modprobe nvidia"},
	{codeTimeout, "the driver timed out", ""},
	{codeNoLibrary, "no NVIDIA driver found",
		"install the NVIDIA driver; in a container ask for the GPUs (docker run --gpus all)"},
	{codeNoFunction, "the driver is too old for this query", ""},
	{codeLost, "GPU is lost", "reset the GPU or restart the machine"},
	{codeResetRequired, "GPU requires a reset", "nvidia-smi --gpu-reset, or restart the machine"},
	{codeOperatingSystem, "the operating system blocks access to the GPU", "in a container, check its device cgroup"},
	{codeMismatch, "the NVIDIA library does not match the loaded driver",
		"the driver was upgraded: restart the machine, or reload its kernel module"},
	{codeMemory, "out of host memory", ""},
	{codeUnknown, "unknown error of the NVIDIA driver", "look into the kernel log: dmesg | grep -i nvrm"},
}

// Error returns what the code means.
func (c Code) Error() string {
	for _, t := range codeTexts {
		if t.code == c {
			return fmt.Sprintf("%s (NVML error %d)", t.text, int(c))
		}
	}
	return fmt.Sprintf("NVML error %d", int(c))
}

// An InitError says why no GPU of this machine can be seen.
type InitError struct {
	Code   Code   // 0 when NVML was not even asked
	Detail string // what the system said; may be empty
	cure   string
}

// Error returns the reason in one line.
func (e *InitError) Error() string {
	switch {
	case e.Code == 0:
		return e.Detail
	case e.Detail != "":
		return fmt.Sprintf("%v: %s", e.Code, e.Detail)
	}
	return e.Code.Error()
}

// Hint returns the cure, or "" when none is known.
func (e *InitError) Hint() string {
	if e.cure != "" {
		return e.cure
	}
	for _, t := range codeTexts {
		if t.code == e.Code {
			return t.cure
		}
	}
	return ""
}

// Unwrap returns the NVML code.
func (e *InitError) Unwrap() error {
	if e.Code == 0 {
		return nil
	}
	return e.Code
}
