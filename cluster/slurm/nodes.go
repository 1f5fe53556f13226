// Package slurm finds the smallest request to a Slurm cluster that holds a job, from the cluster's own list of nodes.
// It runs nothing: the caller asks sinfo and hands the request to sbatch or srun. Sizes are bytes.
package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/cluster"
	"github.com/memestimate/memestimate/spelling"
)

// Format is what sinfo is to be asked for: sinfo -N -h -o Format. These letters are as old as Slurm's GRES, and their
// output is not tied to a version as that of --json is.
const Format = "%N|%T|%P|%c|%m|%f|%G"

// A Node is one of the cluster's.
type Node struct {
	Name       string
	State      string
	Partitions []string // "*" marks the default one in sinfo; it is taken off here
	Default    bool     // in the default partition
	CPUs       int
	Memory     uint64 // of the host
	Features   []string
	GRES       []GRES
}

// A GRES is a generic resource: "gpu:a100:4" or "shard:8".
type GRES struct {
	Name  string // "gpu", "shard"
	Type  string // may be empty
	Count int
}

// Bounds of what is read of sinfo's answer.
const (
	maxNodes = 100_000
	maxCount = 1 << 42
)

// ParseNodes reads sinfo's answer, a line a node and partition.
func ParseNodes(out string) ([]Node, error) {
	var nodes []Node
	at := map[string]int{}
	line := 0
	for text := range strings.Lines(out) {
		line++
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		f := strings.Split(text, "|")
		if len(f) != 7 || len(nodes) > maxNodes {
			return nil, fmt.Errorf("sinfo: line %d: %q: wanted node|state|partition|cpus|memory|features|gres", line, text)
		}
		partition, isDefault := strings.CutSuffix(f[2], "*")
		if i, ok := at[f[0]]; ok {
			nodes[i].Partitions = append(nodes[i].Partitions, partition)
			nodes[i].Default = nodes[i].Default || isDefault
			continue
		}
		n := Node{Name: f[0], State: strings.TrimRight(f[1], "*~#!%$@^-+"), Partitions: []string{partition},
			Default: isDefault}
		n.CPUs, _ = strconv.Atoi(strings.TrimSuffix(f[3], "+"))
		mb, _ := strconv.ParseUint(strings.TrimSuffix(f[4], "+"), 10, 43)
		n.Memory = mb << 20
		if f[5] != "(null)" {
			n.Features = strings.Split(f[5], ",")
		}
		var err error
		if n.GRES, err = parseGRES(f[6]); err != nil {
			return nil, fmt.Errorf("sinfo: line %d: %w", line, err)
		}
		at[n.Name] = len(nodes)
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// parseGRES reads "gpu:a100:2(S:0-1),shard:8", whose counts may end with K, M or G.
func parseGRES(s string) ([]GRES, error) {
	var all []GRES
	if s == "(null)" || s == "" {
		return nil, nil
	}
	for _, p := range spelling.List(s) {
		p, _, _ = strings.Cut(p, "(")
		w := strings.Split(p, ":")
		g := GRES{Name: w[0], Count: 1}
		if last := w[len(w)-1]; len(w) > 1 {
			unit := 1
			switch last[max(len(last)-1, 0):] {
			case "K":
				unit = 1 << 10
			case "M":
				unit = 1 << 20
			case "G":
				unit = 1 << 30
			}
			n, err := strconv.Atoi(strings.TrimRight(last, "KMG"))
			if err == nil {
				if n < 0 || n > maxCount/unit {
					return nil, fmt.Errorf("gres %q: wanted a count from 0", p)
				}
				g.Count = n * unit
				w = w[:len(w)-1]
			}
		}
		switch len(w) {
		case 1:
		case 2:
			g.Type = w[1]
		default:
			return nil, fmt.Errorf("gres %q: wanted name:type:count", p)
		}
		all = append(all, g)
	}
	return all, nil
}

// down are the states in which a node takes no job until somebody sees to it.
var down = []string{"down", "drained", "draining", "fail", "failing", "inval", "maint", "unknown", "error",
	"powered_down", "future"}

// usable tells whether the node may take a job now or later.
func (n *Node) usable() bool { return !slices.Contains(down, strings.ToLower(n.State)) }

// vramGRES are the GRES by which sites say how much memory one GPU of a node has. They are not consumed:
// "VramPerGpu:no_consume:48G", "gpumem:24G" (as ETH Zurich's Euler has it).
var vramGRES = []string{"vrampergpu", "gpumem"}

// vram returns what the node says of the memory of its GPUs, and by which GRES.
func (n *Node) vram() (s cluster.Size, name string) {
	for _, g := range n.GRES {
		if slices.Contains(vramGRES, strings.ToLower(g.Name)) && g.Count >= 1<<30 {
			return cluster.Size{Bytes: uint64(g.Count) / 100 * 93, Guessed: true}, g.Name
		}
	}
	return s, ""
}

// count returns how many of a resource the node has, of any type when typ is "".
func (n *Node) count(name, typ string) (sum int) {
	for _, g := range n.GRES {
		if g.Name == name && (typ == "" || g.Type == typ) {
			sum += g.Count
		}
	}
	return sum
}
