package kernels

// atenProducts are the matrix products (aten/src/ATen/native/cuda/Blas.cpp). Copies of operands that BLAS cannot read,
// and the workspaces that a thread keeps once it has met its first product, come after the result.
var atenProducts = []operator{
	{"mm", func(k *Kernels, c *Call) { k.product(c, c.tensor(0), c.tensor(1), false) }},
	{"bmm", func(k *Kernels, c *Call) { k.product(c, c.tensor(0), c.tensor(1), false) }},
	{"addmm", (*Kernels).addmm},
	{"_addmm_activation", (*Kernels).addmm},
	{"addmm_", (*Kernels).addmm},
	{"baddbmm", func(k *Kernels, c *Call) { k.product(c, c.tensor(1), c.tensor(2), false) }},
	{"baddbmm_", func(k *Kernels, c *Call) { k.product(c, c.tensor(1), c.tensor(2), false) }},
	{"addbmm", func(k *Kernels, c *Call) { k.product(c, c.tensor(1), c.tensor(2), false) }},
	{"mv", func(k *Kernels, c *Call) { k.useBLAS(false) }}, // gemv reads any stride that is not 0
	{"addmv", func(k *Kernels, c *Call) { k.useBLAS(false) }},
	{"dot", func(k *Kernels, c *Call) { k.useBLAS(false) }},
	{"vdot", func(k *Kernels, c *Call) { k.useBLAS(false) }},
	{"_grouped_mm", (*Kernels).grouped},
	{"_scaled_mm", func(k *Kernels, c *Call) { k.useBLAS(true) }}, // cublasLt alone
}

// grouped takes what the kernel of a grouped product does (aten/src/ATen/native/cuda/GroupMM.cu): 60 bytes of pointers,
// sizes and strides for each group, then 512 for each multiprocessor, both for as long as it is launched, as an H200
// showed for 4 to 128 groups. Where there is no kernel products are recorded for each group.
func (k *Kernels) grouped(c *Call) {
	k.makes(0)
	a := c.tensor(0)
	if a == nil || a.DType != "bfloat16" || k.device.Capability.Major != 9 && k.device.Capability.Major != 10 {
		return
	}
	groups := a.size(0)
	if offs := c.tensor(2); offs != nil {
		groups = offs.size(0)
	}
	input := k.take(saturate(groups, 60))
	k.give(k.take(saturate(512, int64(k.device.Multiprocessors))), input)
}

func (k *Kernels) addmm(c *Call) {
	bias, a, b := c.tensor(0), c.tensor(1), c.tensor(2)
	k.product(c, a, b, bias != nil && a != nil && b != nil && LtEpilogue(len(bias.Shape), a.size(0), a.size(1), b.size(1)))
}

func (k *Kernels) product(c *Call, a, b *Tensor, lt bool) {
	if a == nil || b == nil || c.result(0).Elements == 0 && c.has(0) {
		return
	}
	k.makes(0)
	copies := []int{k.take(blasCopy(a)), k.take(blasCopy(b))}
	k.useBLAS(lt)
	k.give(copies...)
}

// blasCopy returns the bytes of the copy that a product makes of an operand, mostly 0.
func blasCopy(t *Tensor) int64 {
	n := len(t.Shape)
	if n < 2 || !BLASCopies(t.Shape[n-2], t.Shape[n-1], t.Stride[n-2], t.Stride[n-1]) {
		return 0
	}
	return t.Bytes()
}

// useBLAS takes the workspaces that a thread keeps for each stream: cuBLAS's, and cublasLt's where a product
// goes through it (aten/src/ATen/cuda/CublasHandlePool.cpp).
func (k *Kernels) useBLAS(lt bool) {
	at := place{k.thread, k.stream}
	k.blasOn[k.thread] = true
	if !k.blas[at] {
		k.blas[at] = true
		k.keep(k.device.BLASWorkspace)
	}
	if lt && !k.lt[at] {
		k.lt[at] = true
		k.keep(k.device.LtWorkspace)
	}
}

// keep takes what the library keeps until ClearBLAS.
func (k *Kernels) keep(bytes int64) {
	k.script = append(k.script, Step{Do: Keep, Bytes: bytes})
}

// ClearBLAS says that all that was kept was freed: products take their workspaces anew.
func (k *Kernels) ClearBLAS() {
	clear(k.blas)
	clear(k.lt)
}
