package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/cluster"
)

// A Need is what a job takes.
type Need struct {
	Bytes      uint64 // on each GPU
	GPUs       int
	Host       uint64   // memory of the host on each node; 0: the partition's default
	Share      bool     // a part of a GPU will do: shards, where the cluster has them
	Partition  string   // "": the default one
	Constraint []string // features that the nodes must have besides
}

// A Request is what to ask Slurm for.
type Request struct {
	GRES       string `json:"gres"` // on each node: "gpu:a100-80:1"
	Nodes      int    `json:"nodes"`
	Constraint string `json:"constraint,omitempty"` // an expression of features
	Bytes      uint64 `json:"gpu_bytes"`            // memory of one GPU of the kind, or of the shards asked for
	Guessed    bool   `json:"gpu_bytes_guessed"`    // Bytes was read off the name
	Host       uint64 `json:"host_bytes,omitempty"` // on each node; 0: not asked for

	Partition string `json:"-"`
	Type      string `json:"-"` // as people call what is asked for
	Family    bool   `json:"-"` // Bytes is the least of several GPUs that the name could mean
}

// Args returns the request as options of sbatch, srun and salloc.
func (r *Request) Args() []string {
	args := []string{fmt.Sprintf("--nodes=%d", r.Nodes), "--gres=" + r.GRES}
	if r.Constraint != "" {
		args = append(args, "--constraint="+r.Constraint)
	}
	if r.Partition != "" {
		args = append(args, "--partition="+r.Partition)
	}
	if r.Host > 0 {
		args = append(args, fmt.Sprintf("--mem=%dM", (r.Host+1<<20-1)>>20))
	}
	return args
}

// A Refusal says that no node of the cluster can hold a job, and which comes closest.
type Refusal struct {
	Need    Need
	Node    string // "" when there is no GPU at all
	Type    string
	Bytes   uint64 // of one GPU there
	Count   int    // GPUs there
	Unknown []string
	Why     string
}

// Error returns the reason in one line.
func (e *Refusal) Error() string {
	s := fmt.Sprintf("no node can hold %d GPU with %s", e.Need.GPUs, size(e.Need.Bytes))
	if e.Need.GPUs != 1 {
		s = fmt.Sprintf("no nodes can hold %d GPUs with %s each", e.Need.GPUs, size(e.Need.Bytes))
	}
	switch {
	case e.Node == "":
		s += ": " + e.Why
	default:
		s += fmt.Sprintf(": %s comes closest, with %d of %s (%s): %s", e.Node, e.Count, e.Type, size(e.Bytes), e.Why)
	}
	if len(e.Unknown) > 0 {
		s += "; of unknown size: " + strings.Join(e.Unknown, ", ")
	}
	return s
}

func size(n uint64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

// A kind is GPUs that one expression asks for.
type kind struct {
	gres       string // "gpu:a100", "gpu", "shard:a100"
	constraint string
	also       string // what is asked for beside the GPUs: ",VramPerGpu:40G"
	label      string
	size       cluster.Size
	units      int // of the GRES for one GPU; several where shards make one up
	counts     map[string]int
}

// Choose returns the smallest request that holds a job: of the GPUs with enough memory those with least, on as few
// nodes as can be. It fails with a [*Refusal] when no nodes could hold it even if they were idle. Slurm does the
// waiting.
func Choose(nodes []Node, need Need, sizes cluster.Sizes) (*Request, error) {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !need.allows(&n) })
	kinds, unknown := kindsOf(nodes, need, sizes)
	refusal := &Refusal{Need: need, Unknown: unknown, Why: "no node that may be asked for has GPUs of a known size"}
	nearest := uint64(0)
	for _, k := range kinds {
		node, most := k.most()
		why := ""
		switch {
		case k.size.Bytes < need.Bytes:
			why = size(need.Bytes-k.size.Bytes) + " short on each"
		case k.size.MIG && need.GPUs > 1:
			why = "of MIG instances CUDA shows a process one only"
		default:
			if r := k.request(need, nodes); r != nil {
				return r, nil
			}
			why = fmt.Sprintf("%d short", need.GPUs-most)
		}
		// The closest is the one with the most memory, or of those with enough the one with the most GPUs.
		near := min(k.size.Bytes, need.Bytes)<<8 | uint64(min(most, 255))
		if refusal.Node == "" || near > nearest {
			refusal.Node, refusal.Type, refusal.Bytes, refusal.Count, refusal.Why, nearest = node, k.label, k.size.Bytes, most,
				why, near
		}
	}
	return nil, refusal
}

// Unseen returns a request that holds a job without a list of the cluster's nodes, on one node: by a feature that is
// asked for, if its name tells enough memory, or else by the smallest type of the site's table that has enough. Whether
// the cluster has them is not known.
func Unseen(need Need, sizes cluster.Sizes) (*Request, error) {
	for _, f := range need.Constraint {
		if s, ok := sizes.Of(f); ok && s.Bytes >= need.Bytes && !s.MIG {
			return need.unseen("gpu", "gpu with feature "+f, s), nil
		}
	}
	for _, name := range sizes.Named() {
		if s, _ := sizes.Of(name); s.Bytes >= need.Bytes && !(s.MIG && need.GPUs > 1) {
			return need.unseen("gpu:"+name, "gpu:"+name, s), nil
		}
	}
	return nil, &Refusal{Need: need, Why: "neither a feature that is asked for nor the site's table has GPUs that large"}
}

func (need *Need) unseen(gres, label string, s cluster.Size) *Request {
	return &Request{GRES: fmt.Sprintf("%s:%d", gres, need.GPUs), Nodes: 1, Constraint: strings.Join(need.Constraint, "&"),
		Partition: need.Partition, Host: need.Host, Type: label, Bytes: s.Bytes, Guessed: s.Guessed, Family: s.Family}
}

// allows tells whether the job may run on the node.
func (need *Need) allows(n *Node) bool {
	if !n.usable() || need.Host > n.Memory {
		return false
	}
	if need.Partition != "" && !slices.Contains(n.Partitions, need.Partition) || need.Partition == "" && !n.Default {
		return false
	}
	for _, f := range need.Constraint {
		if !slices.Contains(n.Features, f) {
			return false
		}
	}
	return true
}

// kindsOf returns what can be asked for, the smallest first, and the types of which nobody knows the size.
func kindsOf(nodes []Node, need Need, sizes cluster.Sizes) (kinds []*kind, unknown []string) {
	known := map[string]*kind{}
	add := func(gres, constraint, label string, s cluster.Size, units, count int, node string) *kind {
		key := fmt.Sprint(gres, "|", constraint, "|", s.Bytes)
		k := known[key]
		if k == nil {
			k = &kind{gres: gres, constraint: constraint, label: label, size: s, units: units, counts: map[string]int{}}
			known[key] = k
			kinds = append(kinds, k)
		}
		k.counts[node] = count
		return k
	}
	for i := range nodes {
		n := &nodes[i]
		typed := map[string]bool{}
		for _, g := range n.GRES {
			if g.Name != "gpu" || g.Count == 0 || typed[g.Type] {
				continue
			}
			typed[g.Type] = true
			count := n.count("gpu", g.Type)
			s, ok := sizes.Of(g.Type)
			if v, vram := n.vram(); vram != "" && (!ok || s.Family) && len(gpuTypes(n)) == 1 {
				name := strings.TrimSuffix("gpu:"+g.Type, ":")
				gib := (need.Bytes*100/93 + 1<<30 - 1) >> 30 // the site's sizes are nominal
				k := add(name, "", fmt.Sprintf("%s with %s", name, vram), v, 1, count, n.Name)
				k.also = fmt.Sprintf(",%s:%dG", vram, gib)
				continue
			}
			if g.Type == "" || !ok || s.Family {
				// Features belong to the node: they tell of a GPU only where all GPUs of the node are alike.
				f, fs, found := byFeature(n, sizes)
				switch {
				case found && len(gpuTypes(n)) == 1:
					name := "gpu"
					if g.Type != "" {
						name += ":" + g.Type
					}
					add(name, f, name+" with feature "+f, fs, 1, count, n.Name)
				case ok: // the least of the family is known
				case g.Type != "" && !slices.Contains(unknown, g.Type):
					unknown = append(unknown, g.Type)
				case g.Type == "" && !slices.Contains(unknown, "gpu on "+n.Name):
					unknown = append(unknown, "gpu on "+n.Name)
				}
				if !ok || g.Type == "" {
					continue
				}
			}
			add("gpu:"+g.Type, "", "gpu:"+g.Type, s, 1, count, n.Name)
			if shards := n.count("shard", g.Type); need.Share && need.GPUs == 1 && g.Type != "" && shards > count &&
				shards%count == 0 && s.Bytes > 0 {
				each := s.Bytes / uint64(shards/count)
				units := int((need.Bytes + each - 1) / each)
				if units >= 1 && units < shards/count {
					part := cluster.Size{Bytes: each * uint64(units), Guessed: s.Guessed}
					add("shard:"+g.Type, "", fmt.Sprintf("shard:%s:%d", g.Type, units), part, units, shards, n.Name)
				}
			}
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(a.size.Bytes, b.size.Bytes), cmp.Compare(a.gres, b.gres),
			cmp.Compare(a.constraint, b.constraint))
	})
	slices.Sort(unknown)
	return kinds, unknown
}

// gpuTypes returns the types of a node's GPUs.
func gpuTypes(n *Node) (types []string) {
	for _, g := range n.GRES {
		if g.Name == "gpu" && g.Count > 0 && !slices.Contains(types, g.Type) {
			types = append(types, g.Type)
		}
	}
	return types
}

// byFeature returns the feature that says how much memory the node's GPUs have: of several, the least.
func byFeature(n *Node, sizes cluster.Sizes) (feature string, s cluster.Size, ok bool) {
	for _, f := range n.Features {
		if fs, found := sizes.Of(f); found && (!ok || fs.Bytes < s.Bytes) {
			feature, s, ok = f, fs, true
		}
	}
	return feature, s, ok
}

// most returns the node that has most of the kind.
func (k *kind) most() (node string, count int) {
	for n, c := range k.counts {
		if c /= k.units; c > count || c == count && n < node {
			node, count = n, c
		}
	}
	return node, count
}

// request returns the request for GPUs of the kind on as few nodes as can be, equally many on each; nil when there are
// too few.
func (k *kind) request(need Need, nodes []Node) *Request {
	for n := 1; n <= need.GPUs; n++ {
		if need.GPUs%n != 0 {
			continue
		}
		each, have := need.GPUs/n*k.units, 0
		for _, c := range k.counts {
			if c >= each {
				have++
			}
		}
		if have < n {
			continue
		}
		constraint := slices.Clone(need.Constraint)
		if k.constraint != "" && !slices.Contains(constraint, k.constraint) {
			constraint = append(constraint, k.constraint)
		}
		return &Request{
			GRES: fmt.Sprintf("%s:%d%s", k.gres, each, k.also), Nodes: n, Constraint: strings.Join(constraint,
				"&"), Partition: need.Partition, Host: need.Host,
			Type: k.label, Bytes: k.size.Bytes, Guessed: k.size.Guessed, Family: k.size.Family,
		}
	}
	return nil
}
