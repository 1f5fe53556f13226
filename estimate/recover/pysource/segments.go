package pysource

import (
	"strconv"
	"strings"
)

const sequentially = "checkpoint_sequential"

// ofSegment reports whether a frame is where torch.utils.checkpoint.checkpoint_sequential calls the modules of a
// segment: it has a function forward for that, which is no torch.autograd.Function's. Files that keep no folders have
// checkpoint.py alone.
func ofSegment(f Frame) bool {
	return (OfCheckpoint(f) || f.File == "checkpoint.py") && f.Func == "forward" &&
		strings.Contains(f.Source, "functions[j](input)")
}

// Segments returns into how many segments a line has checkpoint_sequential(functions, segments, input) divide its
// modules, and alone where it says that each module is one, len(functions). 0 is for what the line does not say.
func Segments(line string) (n int, alone bool) {
	list, _, ends := tokens(line)
	if !ends {
		return 0, false
	}
	for i, t := range list {
		if t.kind != nameToken || t.text != sequentially || i+1 >= len(list) || !list[i+1].is("(") {
			continue
		}
		end := closing(list, i+1)
		if end < 0 {
			end = len(list)
		}
		for k, arg := range splitTop(list[i+2:end], ",") {
			if len(arg) > 2 && arg[1].is("=") && arg[0].text == "segments" {
				arg = arg[2:]
			} else if k != 1 {
				continue
			}
			switch {
			case len(arg) == 1 && arg[0].kind == numberToken:
				n, _ = strconv.Atoi(arg[0].text)
			case len(arg) > 1 && arg[0].text == "len" && arg[1].is("("):
				alone = true
			}
		}
	}
	return n, alone
}
