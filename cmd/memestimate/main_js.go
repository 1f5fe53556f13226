//go:build js && wasm

package main

import (
	"bytes"
	"context"
	"syscall/js"
)

// main makes the program a function of the page: memestimate(arguments, bytes of standard input, their name, whether it
// is the first that is asked of them) returns {code, stdout, stderr}. Standard output is shown as a terminal of 80
// columns shows it. A page has one thread: the first answer does not wait for what the guesses weigh.
func main() {
	newHeap()
	js.Global().Set("memestimate", js.FuncOf(func(_ js.Value, in []js.Value) any {
		args := make([]string, in[0].Length())
		for i := range args {
			args[i] = in[0].Index(i).String()
		}
		data := make([]byte, in[1].Length())
		js.CopyBytesToGo(data, in[1])
		var stdout, stderr bytes.Buffer
		environment := map[string]string{"COLUMNS": "80", "NO_COLOR": "1"}
		e := &env{
			stdin: bytes.NewReader(data), stdinName: in[2].String(), stdout: &stdout, stderr: &stderr, terminal: true,
			getenv:    func(name string) string { return environment[name] },
			unweighed: in[3].Truthy(),
		}
		code := run(context.Background(), e, args)
		out := js.Global().Get("Uint8Array").New(stdout.Len())
		js.CopyBytesToJS(out, stdout.Bytes())
		return map[string]any{"code": code, "stdout": out, "stderr": stderr.String()}
	}))
	js.Global().Call("memestimateReady")
	select {}
}
