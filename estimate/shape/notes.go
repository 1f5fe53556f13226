package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// maxNotes bounds how many notes one inference keeps; the rest is counted.
const maxNotes = 1000

// notes collects what the user should know, in the order of the nodes.
type notes struct {
	list []string
	more int
}

func (f *inferer) note(n *onnxload.Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n != nil {
		text = place(n) + ": " + text
	}
	f.notes.add(text)
}

func (n *notes) add(text string) {
	if len(n.list) >= maxNotes {
		n.more++
		return
	}
	n.list = append(n.list, text)
}

// all returns the notes, the last of which counts those left out.
func (n *notes) all() []string {
	if n.more == 0 {
		return n.list
	}
	return append(n.list[:len(n.list):len(n.list)], fmt.Sprintf("%d more notes", n.more))
}

// place says which node is meant.
func place(n *onnxload.Node) string {
	switch {
	case n.Name != "":
		return fmt.Sprintf("%q (%s)", n.Name, n.Op)
	case len(n.Out) > 0:
		return fmt.Sprintf("a node (%s)", n.Op)
	}
	return n.Op
}
