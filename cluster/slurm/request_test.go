package slurm

import (
	"errors"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/cluster"
	"github.com/memestimate/memestimate/test/must"
)

const site = `gpu40|idle|all*|8|64000|gpu,vram40|gpu:a100-40:4
gpu40|idle|long|8|64000|gpu,vram40|gpu:a100-40:4
gpu80|mixed|all*|16|128000|gpu,vram80|gpu:a100-80:2(S:0-1)
gpumix|allocated|all*|16|128000|gpu,vram24,vram80|gpu:a100-80:1,gpu:rtx4090:2,shard:a100-80:0,shard:rtx4090:8
plain|idle|all*|16|128000|gpu,vram16|gpu:3
plain2|idle|all*|16|128000|gpu,vram16|gpu:3
mig|idle|all*|16|128000|(null)|gpu:1g.10gb:7
odd|idle|all*|16|128000|(null)|gpu:mystery:2
broken|down*|all*|16|512000|(null)|gpu:b200:8
cpu1|idle|all*|8|32000|cpu|(null)
far|idle|special|8|32000|(null)|gpu:h200:8
`

const gib = 1 << 30

func TestChoose(t *testing.T) {
	nodes, err := ParseNodes(site)
	must.OK(t, err)
	if len(nodes) != 10 || nodes[0].Partitions[1] != "long" || nodes[7].State != "down" {
		t.Fatalf("%d nodes: %+v", len(nodes), nodes)
	}
	for _, tt := range []struct {
		name string
		need Need
		want string // the arguments, or "!" and a part of the error
	}{
		{"the smallest GPU that holds it", Need{Bytes: 20 * gib, GPUs: 1}, "--nodes=1 --gres=gpu:rtx4090:1"},
		{"a MIG instance is smaller", Need{Bytes: 9 * gib, GPUs: 1}, "--nodes=1 --gres=gpu:1g.10gb:1"},
		{"two cannot be MIG instances", Need{Bytes: 9 * gib, GPUs: 2}, "--nodes=1 --gres=gpu:2 --constraint=vram16"},
		{"by feature, on two nodes", Need{Bytes: 14 * gib, GPUs: 6}, "--nodes=2 --gres=gpu:3 --constraint=vram16"},
		{"the next size", Need{Bytes: 30 * gib, GPUs: 1, Host: 10 * gib}, "--nodes=1 --gres=gpu:a100-40:1 --mem=10240M"},
		{"four of one node", Need{Bytes: 30 * gib, GPUs: 4}, "--nodes=1 --gres=gpu:a100-40:4"},
		{"more memory of the host than the node has", Need{Bytes: 30 * gib, GPUs: 1, Host: 100 * gib},
			"--nodes=1 --gres=gpu:a100-80:1 --mem=102400M"},
		{"two large ones", Need{Bytes: 70 * gib, GPUs: 2}, "--nodes=1 --gres=gpu:a100-80:2"},
		{"two nodes with one each beat none with three", Need{Bytes: 70 * gib, GPUs: 3},
			"!gpu80 comes closest, with 2 of gpu:a100-80 (79.14 GiB): 1 short"},
		{"too large", Need{Bytes: 90 * gib, GPUs: 1},
			"!no node can hold 1 GPU with 90.00 GiB: gpu80 comes closest, with 2 of gpu:a100-80 (79.14 GiB): 10.86 GiB short " +
				"on each; of unknown size: mystery"},
		{"shards when sharing", Need{Bytes: 10 * gib, GPUs: 1, Share: true, Constraint: []string{"vram24"}},
			"--nodes=1 --gres=shard:rtx4090:2 --constraint=vram24"},
		{"another partition", Need{Bytes: 90 * gib, GPUs: 8, Partition: "special"},
			"--nodes=1 --gres=gpu:h200:8 --partition=special"},
		{"a partition without GPUs", Need{Bytes: gib, GPUs: 1, Partition: "none"}, "!has GPUs of a known size"},
		{"a feature asked for", Need{Bytes: 10 * gib, GPUs: 1, Constraint: []string{"vram80"}},
			"--nodes=1 --gres=gpu:rtx4090:1 --constraint=vram80"},
	} {
		r, err := Choose(nodes, tt.need, cluster.Sizes{})
		want, fails := strings.CutPrefix(tt.want, "!")
		var no *Refusal
		switch {
		case fails && (!errors.As(err, &no) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", tt.name, err, want)
		case !fails && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case !fails && strings.Join(r.Args(), " ") != want:
			t.Errorf("%s: %v, want %s", tt.name, r.Args(), want)
		}
	}
}

// TestMixedFeatures: a feature says nothing of a node with GPUs of several kinds.
func TestMixedFeatures(t *testing.T) {
	nodes, err := ParseNodes("n|idle|all*|8|64000|vram80|gpu:huge:1,gpu:tiny:1\n")
	must.OK(t, err)
	if r, err := Choose(nodes, Need{Bytes: gib, GPUs: 1}, cluster.Sizes{}); err == nil {
		t.Errorf("got %v", r.Args())
	} else if !strings.Contains(err.Error(), "of unknown size: huge, tiny") {
		t.Error(err)
	}
}

// TestFamilies: a type that names a family has at least what its smallest GPU has, and more where the site says so.
func TestFamilies(t *testing.T) {
	nodes, err := ParseNodes(`n1|idle|gpu*|64|512000|(null)|gpu:a100:4(S:0-1)
n2|idle|gpu*|64|512000|(null)|gpu:h100:8(S:0-1)
n3|idle|gpu*|64|512000|(null)|gpu:v100:4
n4|idle|gpu*|64|512000|a100_80gb|gpu:a100:4
n5|idle|gpu*|64|512000|(null)|gpu:big:2,VramPerGpu:no_consume:128G
n6|idle|gpu*|64|512000|(null)|gpu:other:2,gpumem:200G
`)
	must.OK(t, err)
	for _, tt := range []struct {
		need   uint64
		want   string
		family bool
	}{
		{1 * gib, "--nodes=1 --gres=gpu:v100:1", true},
		{20 * gib, "--nodes=1 --gres=gpu:a100:1", true},
		{60 * gib, "--nodes=1 --gres=gpu:h100:1", true},
		{79 * gib, "--nodes=1 --gres=gpu:h100:1", true},
		{100 * gib, "--nodes=1 --gres=gpu:big:1,VramPerGpu:108G", false},
		{150 * gib, "--nodes=1 --gres=gpu:other:1,gpumem:162G", false},
	} {
		r, err := Choose(nodes, Need{Bytes: tt.need, GPUs: 1}, cluster.Sizes{})
		if err != nil {
			t.Errorf("%d: %v", tt.need, err)
		} else if got := strings.Join(r.Args(), " "); got != tt.want || r.Family != tt.family {
			t.Errorf("%d: %s, family %v, want %s", tt.need, got, r.Family, tt.want)
		}
	}
	r, err := Choose(nodes, Need{Bytes: 60 * gib, GPUs: 1, Constraint: []string{"a100_80gb"}}, cluster.Sizes{})
	if err != nil || strings.Join(r.Args(), " ") != "--nodes=1 --gres=gpu:a100:1 --constraint=a100_80gb" {
		t.Errorf("%v, %v", r, err)
	}
}

// TestCounts: a count that no node can have is refused.
func TestCounts(t *testing.T) {
	for _, gres := range []string{"gpu:a100-80:-4", "shard:-1", "gpu:9223372036854775807G"} {
		if nodes, err := ParseNodes("n1|idle|gpu*|1|1|(null)|" + gres + "\n"); err == nil {
			t.Errorf("%s: %+v", gres, nodes)
		}
	}
}

func FuzzParseNodes(f *testing.F) {
	f.Add(site)
	f.Add("a|idle|p*|1|1|(null)|gpu:a:1K,gpu(IDX:0-1)\n")
	f.Fuzz(func(t *testing.T, s string) {
		nodes, err := ParseNodes(s)
		if err != nil {
			return
		}
		Choose(nodes, Need{Bytes: gib, GPUs: 2, Share: true}, cluster.Sizes{})
	})
}
